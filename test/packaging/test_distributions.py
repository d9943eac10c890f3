"""The package as users get it: a colcon workspace, a source distribution, a wheel, and pip."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile

import numpy as np
import pytest

from test.packaging.test_container import copied_files

FOLDERS = {'kernels': 'stereo_bp_ros/kernels', 'config': 'stereo_bp_ros/presets'}

#: Prints where the package is, its presets, and how many kernels and presets it finds.
LOOK = ('import stereo_bp_ros; from stereo_bp_ros.system import resources as r; '
        'print(stereo_bp_ros.__file__); '
        'print(len(list(r.KERNELS.rglob("*.cu*"))), len(list(r.PRESETS.rglob("*.yaml")))); '
        'print(stereo_bp_ros.preset_names())')


def run(*command: object, **options: object) -> str:
    path = f'{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, check=False, **{
                              'env': {**os.environ, 'PATH': path}, **options})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def git(repository: pathlib.Path, *words: str) -> list[str]:
    """The lines that git prints of a checkout, whoever owns it."""
    if not (repository / '.git').exists() or not shutil.which('git'):
        pytest.skip('this is no git checkout, or git is not installed')
    with tempfile.TemporaryDirectory() as home:
        # Git reads this setting from files alone.
        pathlib.Path(home, '.gitconfig').write_text('[safe]\n\tdirectory = *\n')
        environment = {**os.environ, 'HOME': home}
        if subprocess.run(['git', '-C', str(repository), 'rev-parse'], env=environment,
                          capture_output=True, check=False).returncode:
            pytest.skip('git cannot read this checkout')     # another user's, in a closed folder
        return run('git', '-C', repository, *words, env=environment).splitlines()


def tracked(repository: pathlib.Path) -> list[str]:
    return [name for name in git(repository, 'ls-files') if (repository / name).is_file()]


def copy(repository: pathlib.Path, names: list[str], folder: pathlib.Path) -> pathlib.Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(repository / name, folder / name)
    return folder


@pytest.fixture(scope='module')
def sources(tmp_path_factory: pytest.TempPathFactory, repository: pathlib.Path) -> pathlib.Path:
    """The tracked files as a checkout has them that knows no symlinks."""
    return copy(repository, tracked(repository), tmp_path_factory.mktemp('sources'))


def shared(repository: pathlib.Path) -> dict[str, int]:
    """Files that the package shares with the top level, by their place in it, and their sizes."""
    return {f'{inside}/{path.relative_to(repository / folder)}': path.stat().st_size
            for folder, inside in FOLDERS.items()
            for path in (repository / folder).rglob('*') if path.is_file()}


def assert_whole(printed: str, repository: pathlib.Path) -> pathlib.Path:
    """All kernels and presets are found by what printed ``LOOK``; returns where the package is."""
    where, counts, presets = printed.splitlines()
    files = shared(repository)
    assert [int(count) for count in counts.split()] == [
        sum('.cu' in name for name in files), sum(name.endswith('.yaml') for name in files)]
    assert "'five_sets'" in presets
    return pathlib.Path(where).parent


def test_no_file_is_a_symlink(repository: pathlib.Path) -> None:
    assert not [line for line in git(repository, 'ls-files', '--stage')
                if line.startswith('120000')]


@pytest.mark.slow
@pytest.mark.parametrize('way', ['container', 'symlinks'])
def test_a_workspace_has_the_executables_and_shares_presets_and_launch_files(
        tmp_path: pathlib.Path, repository: pathlib.Path, way: str) -> None:
    if not shutil.which('colcon', path=str(pathlib.Path(sys.executable).parent)):
        pytest.skip('colcon is not installed')
    names = tracked(repository)
    if way == 'container':      # what the container's build copies is enough
        roots = copied_files(repository)
        names = [name for name in names if name.partition('/')[0] in roots]
    copy(repository, names, tmp_path / 'src/stereo_bp_ros')
    assert run('colcon', 'list', cwd=tmp_path).split() == [
        'stereo_bp_ros', 'src/stereo_bp_ros', '(ros.ament_python)']
    run('colcon', 'build', *(['--symlink-install'] if way == 'symlinks' else []), cwd=tmp_path)
    prefix = tmp_path / 'install/stereo_bp_ros'
    for name in ('stereo_bp_node', 'stereo_bp'):
        assert os.access(prefix / 'lib/stereo_bp_ros' / name, os.X_OK)
    share = prefix / 'share/stereo_bp_ros'
    for folder in ('launch', 'config', 'config/cameras'):
        assert {path.name for path in (share / folder).iterdir()} == {
            path.name for path in (repository / folder).iterdir() if path.suffix != '.pyc'
            and path.name != '__pycache__'}
    assert (share / 'package.xml').is_file()
    assert (prefix / 'share/ament_index/resource_index/packages/stereo_bp_ros').is_file()
    setup = '. install/local_setup.sh && '
    assert '"disparity_range": 128' in run(
        'sh', '-c', f'{setup}{prefix}/lib/stereo_bp_ros/stereo_bp info --json --preset road',
        cwd=tmp_path)
    assert_whole(run('sh', '-c', f"{setup}{sys.executable} -c '{LOOK}'", cwd=tmp_path), repository)


def test_a_wheel_of_the_source_distribution_is_whole_and_pip_installs_it(
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
    assert set(tracked(repository)) - names == {'.gitignore'}
    unpacked, = (path for path in tmp_path.iterdir() if path.is_dir())
    run(sys.executable, '-c', build, 'wheel', tmp_path, cwd=unpacked)
    wheel, = tmp_path.glob('*.whl')
    with zipfile.ZipFile(wheel) as content:
        held = {entry.filename: entry.file_size for entry in content.infolist()}
    assert shared(repository).items() <= held.items()
    share = f'stereo_bp_ros-{unpacked.name.rpartition("-")[2]}.data/data/share'
    launches = {name for name in tracked(repository) if name.startswith('launch/')}
    assert launches
    assert {name for name in tracked(repository) if name.startswith('stereo_bp_ros/')} | {
        f'{share}/stereo_bp_ros/{name}' for name in (*launches, 'package.xml')} | {
        f'{share}/ament_index/resource_index/packages/stereo_bp_ros'} <= held.keys()
    python = environment(tmp_path / 'venv')
    run(sys.executable, '-m', 'pip', '--python', python, 'install', '--no-deps', '-q', wheel)
    for name in ('stereo_bp_node', 'stereo_bp'):
        assert os.access(python.parent / name, os.X_OK)
    where = assert_whole(look(python, tmp_path), repository)
    assert where.is_relative_to(tmp_path / 'venv')


def environment(folder: pathlib.Path) -> pathlib.Path:
    """The interpreter of an empty environment."""
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / 'bin/python'


def look(python: pathlib.Path, folder: pathlib.Path) -> str:
    """What ``LOOK`` prints in an environment, with the packages of this one behind its own."""
    return run(python, '-c', 'import sys; sys.path.append(sys.argv[1]); ' + LOOK,
               pathlib.Path(np.__file__).parent.parent, cwd=folder,
               env={name: value for name, value in os.environ.items() if name != 'PYTHONPATH'})


@pytest.mark.slow
def test_an_editable_installation_finds_them_at_the_top_of_the_sources(
        sources: pathlib.Path, tmp_path: pathlib.Path, repository: pathlib.Path) -> None:
    python = environment(tmp_path / 'venv')
    run(sys.executable, '-m', 'pip', '--python', python, 'install', '--no-deps', '-q',
        '--no-build-isolation', '-e', sources,
        env={**os.environ, 'PYTHONPATH': str(pathlib.Path(np.__file__).parent.parent)})
    assert assert_whole(look(python, tmp_path), repository) == sources / 'stereo_bp_ros'
