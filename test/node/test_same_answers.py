"""Node, evaluation, match and Python make the same of the same pairs: bits, issues, rows."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import StereoMatcher, StereoStream, preset_names
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import InputError
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.pairs import Pair
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.node.stand_ins import NOW, Bench, make_image, make_info

W, H, HALF_SECOND = 320, 240, 500_000_000
FIRST = Calibration(250.0, 0.3, 160.0, 160.0, H / 2)
OTHER = dataclasses.replace(FIRST, focal_px=251.0)


@functools.cache
def street(lower_px: float) -> RoadSequence:
    return RoadSequence(width=W, height=H, max_disparity=30, rate_hz=2, frames=12,
                        misalignment=Misalignment(vertical_offset_px=lower_px))


@functools.cache
def drive() -> tuple[Pair, ...]:
    """A bump from the fourth pair on, a frozen camera, exchanged images, another calibration."""
    pairs = []
    for number in range(12):
        frame = street(0.0 if number < 3 else 1.5).frame(number)
        left, right = frame.left, frame.right
        if number == 6:
            left = pairs[5].left
        if number in (8, 9):
            left, right = right, left
        pairs.append(Pair(f'{number}', left, right, None, None,
                          FIRST if number < 10 else OTHER, NOW + number * HALF_SECOND))
    return tuple(pairs)


@functools.cache
def foggy_drive() -> tuple[Pair, ...]:
    """Nothing can be seen from the fourth pair on, for five pairs."""
    random, pairs = np.random.default_rng(0), []
    for number in range(12):
        frame = street(0.0).frame(number)
        left, right = (random.integers(126, 130, (2, H, W), np.uint8) if 3 <= number < 8 else
                       (frame.left, frame.right))
        pairs.append(Pair(f'{number}', left, right, None, None, FIRST,
                          NOW + number * HALF_SECOND))
    return tuple(pairs)


Answer = tuple[np.ndarray | None, list[str], float]
"""Disparity, or None of a pair that is rejected; issues; and rows that are undone."""


def of_python(config: MatcherConfig, pairs: Sequence[Pair]) -> list[Answer]:
    found: list[Answer] = []
    with StereoStream(config) as stream:
        for pair in pairs:
            try:
                result = stream.add(pair.left, pair.right, stamp=1e-9 * (pair.stamp_ns or 0),
                                    calibration=pair.calibration)
                found.append((result.frame.disparity, sorted(map(str, result.issues)),
                              result.corrected_px))
            except InputError as error:
                found.append((None, [str(error.code)], 0.0))
    return found


def of_evaluation(config: MatcherConfig, pairs: Sequence[Pair]) -> list[Answer]:
    found: list[Answer] = []
    with Evaluation({'own': config}, method=Method(1, own_range=True)) as evaluation:
        for pair in pairs:
            try:
                matched = evaluation.judge(pair)
                found.append((matched.maps['own'][0], sorted(map(str, matched.result.issues)),
                              matched.result.matchers['own'].row_correction_px or 0.0))
            except InputError as error:
                found.append((None, [str(error.code)], 0.0))
    return found


def of_node(config: MatcherConfig, pairs: Sequence[Pair]) -> list[Answer]:
    bench = Bench(config, factory=StereoMatcher, measures_inline=True)
    found: list[Answer] = []
    corrections: list[Any] = []
    compute = bench.matcher_host.compute

    def watched(*arguments: Any) -> Any:
        corrections.append(arguments[-1])
        return compute(*arguments)
    bench.matcher_host.compute = watched                    # type: ignore[method-assign]
    for pair in pairs:
        calibration, stamp = pair.calibration, pair.stamp_ns
        assert calibration is not None
        assert stamp is not None
        bench.left_info, bench.right_info = (make_info(
            side=side, width=W, height=H, focal=calibration.focal_px,
            baseline=calibration.baseline_m, cx=calibration.cx_left) for side in (
                'left', 'right'))
        bench.now, published = stamp, len(bench.outputs.published)
        bench.issues.report()
        bench.process(stamp, left=make_image(stamp, np.asarray(pair.left)),
                      right=make_image(stamp, np.asarray(pair.right)))
        if len(bench.outputs.published) == published:
            found.append((None, [bench.rejections.split(': ')[1]], 0.0))
            continue
        disparity = bench.outputs.published[-1][1].frame.disparity
        correction = corrections[-1]
        found.append((disparity, sorted(map(str, bench.issues.active())),
                      0.0 if correction is None else correction.max_offset(W, H)))
    bench.matcher_host.release()
    return found


@pytest.mark.parametrize('preset', ['sad_fast', 'road_fast'])
def test_node_evaluation_and_python_give_the_same_of_a_drive(preset: str) -> None:
    config = MatcherConfig.preset(preset, backend='cpu', disparity_range=32, speckle_size=0,
                                  row_correction='correct')
    python = the_same_of_all(config, drive())
    undone = [answer[2] for answer in python]
    assert undone[:3] == [0.0] * 3
    assert undone[7] == pytest.approx(1.5, abs=0.2)                     # the bump
    assert any('image repeats' in text for text in python[6][1])
    assert python[9][1] == ['exchanged images']
    assert undone[10] == pytest.approx(1.5, abs=0.2)                    # begins anew


def the_same_of_all(config: MatcherConfig, pairs: Sequence[Pair]) -> list[Answer]:
    """What Python, evaluation and node make of pairs."""
    python, evaluation, node = (of(config, pairs) for of in (of_python, of_evaluation, of_node))
    for number, (one, *others) in enumerate(zip(python, evaluation, node, strict=True)):
        for other in others:
            assert other[1:] == one[1:], number
            assert (other[0] is None) == (one[0] is None), number
            if one[0] is not None:
                np.testing.assert_array_equal(other[0], one[0], err_msg=str(number))
    return python


def test_node_evaluation_and_python_tell_the_same_of_pixels_over_several_looks() -> None:
    config = MatcherConfig.preset('sad_fast', backend='cpu', disparity_range=16, speckle_size=0)
    python = the_same_of_all(config, foggy_drive())
    told = [[re.findall(r'\[(.*)]$', text)[0] for text in issues] for _, issues, _ in python]
    near, few = ['largest disparity'], ['few valid pixels']
    # The first frame by itself, then what three in a row show: the fog's first two say nothing.
    assert told[:3] == [near] * 3
    assert told[5:8] == [few] * 3
    assert told[8:] == [few] * 2 + [[]] * 2


@pytest.mark.parametrize('lower_px', [0.0, 1.5])
def test_match_is_a_streams_first_pair_and_an_evaluation_of_one_without_a_stamp(
        lower_px: float, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = street(lower_px).frame(0)
    paths = [tmp_path / f'{side}.png' for side in ('left', 'right')]
    for path, image in zip(paths, (frame.left, frame.right), strict=True):
        files.write_image(path, image)
    for preset in preset_names():
        settings = ['--preset', preset, '--backend', 'cpu', '--set', 'disparity_range=32']
        assert main(['match', *map(str, paths), *settings, '--json', '-o',
                     str(tmp_path / 'match.npy')]) == 0
        report = json.loads(capsys.readouterr().out)
        config = MatcherConfig.preset(preset, backend='cpu', disparity_range=32)
        with StereoStream(config) as stream:
            first = stream.add(frame.left, frame.right, stamp=5.0)
        with Evaluation({'own': config}, method=Method(1, own_range=True)) as evaluation:
            matched = evaluation.judge(Pair('', frame.left, frame.right))
        by_match = np.load(tmp_path / 'match.npy')
        for frame_of, issues in ((first.frame.disparity, first.issues),
                                 (matched.maps['own'][0], matched.result.issues)):
            assert frame_of is not None
            valid = ~np.isnan(by_match)
            np.testing.assert_array_equal(frame_of[valid], by_match[valid], err_msg=preset)
            assert [one.to_dict() for one in issues] == report['issues'], preset
        undone = matched.result.matchers['own'].row_correction_px or 0.0
        assert first.corrected_px == undone, preset
        assert bool(undone) == bool((report['rows'] or {}).get('corrected')), preset
