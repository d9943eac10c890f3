"""Source distribution, wheel and editable installation hold the kernels and the presets."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile

import pytest

FOLDERS = {'kernels': 'stereo_bp_ros/kernels', 'config': 'stereo_bp_ros/presets'}

#: Prints where the package is, and how many of its kernels and presets it finds there.
LOOK = ('from stereo_bp_ros import resources as r; print(r.__file__); '
        'print(len(list(r.KERNELS.rglob("*.cu*"))), len(list(r.PRESETS.rglob("*.yaml"))))')


def run(*command: object, **options: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope='module')
def sources(tmp_path_factory: pytest.TempPathFactory, repository: pathlib.Path) -> pathlib.Path:
    """The tracked files as a checkout has them that knows no symlinks."""
    folder = tmp_path_factory.mktemp('sources')
    for name in tracked(repository):
        if (repository / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(repository / name, folder / name)
    return folder


def tracked(repository: pathlib.Path) -> list[str]:
    if not (repository / '.git').exists():
        pytest.skip('this is no git checkout')
    return run('git', '-C', repository, 'ls-files').splitlines()


def shared(repository: pathlib.Path) -> dict[str, int]:
    """Files that the package shares with the top level, by their place in it, and their sizes."""
    return {f'{inside}/{path.relative_to(repository / folder)}': path.stat().st_size
            for folder, inside in FOLDERS.items()
            for path in (repository / folder).rglob('*') if path.is_file()}


def test_no_file_is_a_symlink(repository: pathlib.Path) -> None:
    tracked(repository)
    modes = run('git', '-C', repository, 'ls-files', '--stage').splitlines()
    assert not [line for line in modes if line.startswith('120000')]


def test_a_wheel_holds_kernels_and_presets_from_sources_and_from_their_distribution(
        sources: pathlib.Path, repository: pathlib.Path, tmp_path: pathlib.Path) -> None:
    build = ('import sys; from setuptools import build_meta; '
             'print(getattr(build_meta, "build_" + sys.argv[1])(sys.argv[2]))')
    run(sys.executable, '-c', build, 'sdist', tmp_path, cwd=sources)
    archive, = tmp_path.glob('*.tar.gz')
    with tarfile.open(archive) as content:
        names = {name.partition('/')[2] for name in content.getnames()}
        # Python before 3.10.12 and 3.11.4 has no filters.
        content.extractall(tmp_path, **(
            {'filter': 'data'} if hasattr(tarfile, 'data_filter') else {}))
    # Their tests can be run, too: of every file there is one that reads it.
    wanted = {name for name in tracked(repository) if (repository / name).is_file()}
    assert wanted - names == {'.gitignore'}
    unpacked, = (path for path in tmp_path.iterdir() if path.is_dir())
    for number, folder in enumerate((sources, unpacked)):
        target = tmp_path / f'wheel{number}'
        target.mkdir()
        run(sys.executable, '-c', build, 'wheel', target, cwd=folder)
        wheel, = target.glob('*.whl')
        with zipfile.ZipFile(wheel) as content:
            held = {entry.filename: entry.file_size for entry in content.infolist()}
        assert shared(repository).items() <= held.items()


def test_an_editable_installation_finds_them_at_the_top_of_the_sources(
        sources: pathlib.Path, tmp_path: pathlib.Path, repository: pathlib.Path) -> None:
    venv.create(tmp_path / 'venv', with_pip=False, symlinks=True)
    python = tmp_path / 'venv/bin/python'
    run(sys.executable, '-m', 'pip', '--python', python, 'install', '--no-deps', '-q',
        '--no-build-isolation', '-e', sources,
        env={**os.environ, 'PYTHONPATH': sysconfig.get_path('purelib')})
    numpy_home = pathlib.Path(__import__('numpy').__file__).parent.parent
    where, counts = run(python, '-c', 'import sys; sys.path.append(sys.argv[1]); ' + LOOK,
                        numpy_home, cwd=tmp_path, env={
                            name: value for name, value in os.environ.items()
                            if name != 'PYTHONPATH'}).splitlines()
    assert pathlib.Path(where) == sources / 'stereo_bp_ros/resources.py'
    files = shared(repository)
    assert [int(count) for count in counts.split()] == [
        sum('.cu' in name for name in files), sum(name.endswith('.yaml') for name in files)]
