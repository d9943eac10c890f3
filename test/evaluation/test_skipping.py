"""evaluate --skip-unreadable: sound pairs are judged as ever, the others are named."""

from __future__ import annotations

import functools
import html
import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import scale
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.images import files
from stereo_bp_ros.sources import pairs as sources
from test.cases import slow

pytest.importorskip('numba')
bags = pytest.importorskip('stereo_bp_ros.sources.bags')

from test.cli.recordings import rewritten  # noqa: E402  (needs rosbags)

PAIRS = 12
CONFIG = MatcherConfig(stereo_algorithm='sad', disparity_range=16, backend='cpu', num_threads=1)
COMMAND = ['--skip-unreadable', '--json', '--repeat', '1', '--backend', 'cpu', '--set',
           'stereo_algorithm=sad', '--set', 'disparity_range=16']

#: Two in turn, one alone, and the last of all.
BAD = (3, 4, 6, PAIRS - 1)


@pytest.fixture
def pairs(textured_pair) -> list[tuple[np.ndarray, np.ndarray]]:
    return [textured_pair(64, 48, 3 + index % 5, index) for index in range(PAIRS)]


def write(kind: str, path: pathlib.Path, pairs: list[tuple[np.ndarray, np.ndarray]]
          ) -> pathlib.Path:
    """A folder of pairs without stamps, or a bag with 10 a second."""
    stamps = [10**18 + index * 10**8 for index in range(PAIRS)]
    if kind == 'bag':
        bags.write_bag(path, Calibration(100, 0.5, 32, 32, 24), (
            (stamp, left, right, None)
            for stamp, (left, right) in zip(stamps, pairs, strict=True)))
        return path
    for stamp, images in zip(stamps, pairs, strict=True):
        for side, image in zip(('left', 'right'), images, strict=True):
            (path / side).mkdir(parents=True, exist_ok=True)
            files.write_image(path / side / f'pair{stamp}.png', image)
    return path


def damaged(kind: str, path: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
    """A copy whose right images ``BAD`` cannot be read."""
    if kind == 'bag':
        rewritten(path, copy, '/right/image_rect', BAD, lambda data: data[:40])
        return copy
    shutil.copytree(path, copy)
    for index in BAD:
        (copy / 'right' / f'pair{10**18 + index * 10**8}.png').write_bytes(b'no image')
    return copy


def name_of(kind: str, index: int) -> str:
    return f'{"pair" * (kind == "folder")}{10**18 + index * 10**8}'


def figures(result: dict[str, Any]) -> dict[str, Any]:
    """Those that another run has, too."""
    found = result['matchers']['sad'] if 'matchers' in result else result
    return {key: value for key, value in found.items()
            if key in ('name', 'score', 'filled', 'regions')}


@pytest.mark.parametrize('kind', ['bag', *slow('folder')])
def test_processes_leave_out_what_one_process_does(tmp_path, pairs, kind):
    path = damaged(kind, write(kind, tmp_path / 'sound', pairs), tmp_path / 'damaged')
    source = sources.Sources(sources.inputs_of([path]))
    method = Method(repeat=1, skip_unreadable=True)
    run, spread = scale.Run(), scale.Run()
    with Evaluation({'sad': CONFIG}, method=method) as evaluation:
        alone = [one.to_dict() for one in scale.judge_here(evaluation, source, run)]
    names = [name_of(kind, index) for index in range(PAIRS)]
    assert [one.name for one in run.skipped] == [names[index] for index in BAD]
    assert [one['name'] for one in alone] == [
        name for index, name in enumerate(names) if index not in BAD]
    make = functools.partial(scale.on_device, {'sad': CONFIG}, ())
    found = [one.to_dict() for one in scale.spread(
        functools.partial(make, method, 0), source, spread, 2)]
    assert [one.name for one in spread.skipped] == [one.name for one in run.skipped]
    assert list(map(figures, found)) == list(map(figures, alone))
    # Without that the first of them ends it.
    with pytest.raises(StereoError, match=rf'^pair 4 \({names[3]}\): '):
        list(scale.spread(functools.partial(make, Method(repeat=1), 0), source, spread, 2))


@pytest.mark.parametrize('kind', ['folder', *slow('bag')])
def test_the_command_names_them_and_goes_on(tmp_path, pairs, capsys, caplog, kind):
    sound = write(kind, tmp_path / 'sound', pairs)
    path = damaged(kind, sound, tmp_path / 'damaged')
    assert main(['evaluate', str(sound), *COMMAND]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert whole['skipped'] == []
    assert main(['evaluate', str(path), *COMMAND, '--output', str(tmp_path)]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [figures(one) for one in report['pairs']] == [
        figures(one) for index, one in enumerate(whole['pairs']) if index not in BAD]
    assert report['stopped'] is None
    first, *_ = report['skipped']
    assert (first['name'], len(report['skipped'])) == (name_of(kind, BAD[0]), len(BAD))
    words = f'4 of {PAIRS} pairs cannot be read and are left out{{}} {first["name"]}: '
    assert words.format(', e.g.') + first['error'] in caplog.text
    assert words.format(':') + first['error'] in html.unescape(
        (tmp_path / 'report.html').read_text())
    for image in (path / 'left').glob('*'):
        image.write_bytes(b'')
    if kind == 'folder':
        assert main(['evaluate', str(path), *COMMAND]) == 2
        assert 'has no stereo pairs that can be read' in capsys.readouterr().err
