"""Real data sets are read without a word of warning: false alarms are defects."""

from __future__ import annotations

import os
import pathlib

import pytest

from stereo_bp_ros.sources.datasets.dataset import open_dataset
from stereo_bp_ros.sources.pairs import Sources, inputs_of

DATA = os.environ.get('STEREO_BP_DATA', '')
SETS = {'middlebury': 6, 'middlebury2014/Motorcycle': 1, 'kitti2012': 5, 'kitti_noc': 23,
        'driving': None, 'sequence': 60}


@pytest.mark.parametrize('name', SETS)
def test_nothing_is_said_of_a_real_data_set(name, caplog):
    folder = pathlib.Path(DATA, name)
    if not DATA or not folder.is_dir():
        pytest.skip(f'needs {name} in STEREO_BP_DATA')
    sources = Sources(inputs_of([folder]))
    assert sources.warnings == []
    found = list(open_dataset(folder))
    assert len(found) == sources.count == (SETS[name] or sources.count)
    assert caplog.text == ''
