"""A source in chunks has the pairs that it has from its beginning to its end."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.images import files
from stereo_bp_ros.sources import pairs as sources
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.cases import every

bags = pytest.importorskip('stereo_bp_ros.sources.bags')

PAIRS = 24


def image(index: int, side: str) -> np.ndarray:
    return np.full((48, 64), index + 100 * (side == 'right'), np.uint8)


def write(folder: pathlib.Path, before: str = '') -> pathlib.Path:
    """Images whose names are numbers of frames, which are times, or text before them."""
    for index in range(PAIRS):
        for side in ('left', 'right'):
            (folder / side).mkdir(parents=True, exist_ok=True)
            files.write_image(folder / side / f'{before}{index}.png', image(index, side))
    return folder


@pytest.fixture
def folder(tmp_path):
    """Pairs without stamps."""
    return write(tmp_path / 'pairs', 'pair')


def bag(path: pathlib.Path, pairs: int = PAIRS) -> pathlib.Path:
    bags.write_bag(path, Calibration(100, 0.5, 32, 32, 24), (
        (10**18 + index * 10**8, image(index, 'left'), image(index, 'right'), None)
        for index in range(pairs)))
    return path


def of(*paths: pathlib.Path, limit: int = 0) -> sources.Sources:
    return sources.Sources(sources.inputs_of(paths), limit=limit)


def test_a_sequence_is_one_chunk_and_pairs_without_stamps_are_cut(tmp_path, folder):
    street = RoadSequence(width=64, height=48, max_disparity=12, frames=3)
    found = sources.Sources([
        *sources.inputs_of([folder, write(tmp_path / 'drive'), bag(tmp_path / 'bag')]),
        sources.Input('street', street)], limit=7)
    assert [(one.input.name, one.start, one.stop) for one in found.chunks(3)] == [
        ('pairs', 0, 3), ('pairs', 3, 6), ('pairs', 6, 7), ('drive', 0, 7), ('bag', 0, 7),
        ('street', 0, 3)]
    assert [one.place for one in found.chunks(3)] == [0, 3, 6, 7, 14, 21]
    assert [one.stop for one in found.chunks()] == [7, 7, 7, 3]
    assert found.count == 24


@pytest.mark.parametrize('size', [7, 1, 100])
def test_inputs_have_their_pairs_in_chunks_as_well(tmp_path, folder, size):
    street = RoadSequence(width=64, height=48, max_disparity=12, frames=3)
    found = sources.Sources([sources.Input('bag', bag(tmp_path / 'bag')),
                             sources.Input('street', street),
                             sources.Input('a/folder', folder)], limit=15)
    wanted = list(found.pairs())
    assert found.count == len(wanted) == 15 + 3 + 15
    assert [pair.input for pair in wanted] == 15 * ['bag'] + 3 * ['street'] + 15 * ['a/folder']
    assert every(pair.name.startswith(f'{pair.input}/') for pair in wanted)
    assert wanted[15].name == 'street/000000'
    # Backwards: no chunk needs another one.
    parts = [[one.load() for one in chunk.unread()]
             for chunk in reversed(list(found.chunks(size)))]
    again = [pair for part in reversed(parts) for pair in part]
    assert [(one.name, one.stamp_ns) for one in again] == [
        (one.name, one.stamp_ns) for one in wanted]
    for one, other in zip(again, wanted, strict=True):
        assert every(np.array_equal(picture.pixels, same.pixels)
                     for picture, same in zip(one.images, other.images, strict=True))


def test_names_tell_inputs_apart(tmp_path):
    paths = [tmp_path / name for name in ('monday/left', 'tuesday/left', 'other/../third')]
    assert [one.name for one in sources.inputs_of(paths)] == [
        str(paths[0]), str(paths[1]), 'third']
    with pytest.raises(ValueError, match='third is there twice'):
        sources.inputs_of([*paths, tmp_path / 'third'])


@pytest.mark.parametrize('kind', ['folder', 'bag'])
def test_a_source_that_has_fewer_pairs_by_now_is_refused(tmp_path, folder, kind):
    path = folder if kind == 'folder' else bag(tmp_path / 'source')
    *_, last = of(path).chunks(5)
    path.rename(tmp_path / 'before')
    if kind == 'bag':
        bag(path, PAIRS - 1)
    else:
        write(path, 'pair')
        for side in ('left', 'right'):
            (path / side / 'pair3.png').unlink()
    with pytest.raises(StereoError, match='has changed: it had 24 pairs or more, and has 23'):
        list(last.unread())
