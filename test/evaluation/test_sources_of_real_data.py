"""Real data is read and judged without a word of warning: false alarms are defects."""

from __future__ import annotations

import pathlib

import cv2
import numpy as np
import pytest

from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import Issue, IssueCode
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.pairs import Sources, inputs_of
from stereo_bp_ros.stream.observer import Pair, PairObserver
from test.cases import slow

SETS = {'middlebury': 6, 'middlebury2014/Motorcycle': 1, 'kitti2012': 5, 'kitti_noc': 23,
        'driving': None, 'sequence': 60}

QUICK = 'sad_fast'


def differing() -> list[str]:
    """One preset of those that look for corners in the same range and correct rows alike."""
    found = {}
    for name in (*preset_names(), QUICK):
        config = MatcherConfig.preset(name)
        found[config.min_disparity, config.max_disparity, config.row_correction] = name
    return list(found.values())


def folder_of(data: pathlib.Path, name: str) -> pathlib.Path:
    if not (data / name).is_dir():
        pytest.skip(f'no {name} in {data}')
    return data / name


@pytest.mark.parametrize('name', SETS)
def test_nothing_is_said_of_a_real_data_set(data: pathlib.Path, name: str,
                                            caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_of(data, name)
    sources = Sources(inputs_of([folder]))
    assert sources.warnings == []
    found = list(open_dataset(folder))
    assert len(found) == sources.count == (SETS[name] or sources.count)
    assert caplog.text == ''


def observed(folder: pathlib.Path, config: MatcherConfig, lower_px: float = 0.0
             ) -> dict[str, list[Issue]]:
    """What is said of each pair, whose right image lies so many rows lower."""
    observer, found = PairObserver(), {}
    for pair in open_dataset(folder):
        left, right = pair.images
        if lower_px:
            moved = cv2.warpAffine(
                np.asarray(right.pixels), np.array([[1, 0, 0], [0, 1, lower_px]]),
                (right.width, right.height), flags=cv2.INTER_CUBIC)
            right = RawImage.from_array(moved)
        time_s = None if pair.stamp_ns is None else pair.stamp_ns / 1e9
        found[pair.name] = observer.observe(
            Pair(left, right, config, pair.calibration, time_s=time_s)).issues
    return found


@pytest.mark.parametrize('name', SETS)
@pytest.mark.parametrize('preset', [QUICK, *slow(*(
    name for name in differing() if name != QUICK))])
def test_no_preset_doubts_a_real_pair_or_its_rows(data: pathlib.Path, preset: str, name: str
                                                  ) -> None:
    found = observed(folder_of(data, name), MatcherConfig.preset(preset))
    assert {pair: issues for pair, issues in found.items() if issues} == {}


def test_rows_of_real_pairs_that_are_moved_are_told(data: pathlib.Path) -> None:
    found = observed(folder_of(data, 'kitti2012'), MatcherConfig.preset(QUICK), 1.5)
    assert [[one.code for one in issues] for issues in found.values()] == [
        [IssueCode.VERTICAL_OFFSET]] * SETS['kitti2012']
