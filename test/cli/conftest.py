"""Pairs of image files to match, and a street."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.images import files


@pytest.fixture(scope='session')
def write_pair(textured_pair: Callable[..., Any]) -> Callable[..., pathlib.Path]:
    """Writes left.png, right.png and disparity.pfm of one disparity into a folder; returns it."""
    def write(folder: pathlib.Path, disparity: int = 6, width: int = 96, height: int = 48
              ) -> pathlib.Path:
        folder.mkdir(parents=True, exist_ok=True)
        pair = textured_pair(width, height, disparity)
        for side, image in zip(('left', 'right'), pair, strict=True):
            files.write_image(folder / f'{side}.png', image)
        files.write_pfm(folder / 'disparity.pfm', np.full((height, width), disparity, np.float32))
        return folder

    return write


@pytest.fixture(scope='session')
def street(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Seven rendered frames of 96 x 64 pixels with truth."""
    pytest.importorskip('numba')
    folder = tmp_path_factory.mktemp('rendered') / 'street'
    assert main(['render', '--output', str(folder), '--frames', '7', '--size', '96x64',
                 '--disparities', '14']) == 0
    return folder
