"""A source in chunks has the pairs that it has from its beginning to its end."""

from __future__ import annotations

import dataclasses
import pathlib

import numpy as np
import pytest

from stereo_bp_ros import Calibration, files
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation import sources
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from test.cases import slow

bags = pytest.importorskip('stereo_bp_ros.evaluation.bags')

from test.cases import every  # noqa: E402
from test.cli import recordings  # noqa: E402

PAIRS = 24
CALIBRATION = Calibration(100, 0.5, 32, 32, 24)


def image(index: int, side: str) -> np.ndarray:
    return np.full((48, 64), index + 100 * (side == 'right'), np.uint8)


@pytest.fixture
def folder(tmp_path):
    for index in range(PAIRS):
        for side in ('left', 'right'):
            (tmp_path / 'pairs' / side).mkdir(parents=True, exist_ok=True)
            files.write_image(tmp_path / 'pairs' / side / f'{index}.png', image(index, side))
    return tmp_path / 'pairs'


def write(path: pathlib.Path, kind: str = 'mcap', compression: str = '', rounds: int = 1,
          step_ns: int = 10**8) -> pathlib.Path:
    """A bag whose calibration changes, with truth now and then, and right images that lack.

    :param rounds: how often it was played: the same stamps come again, later.
    :param step_ns: between the recording of two pairs.
    """
    recorded = []
    for number in range(PAIRS * rounds):
        index, time_ns = number % PAIRS, 10**18 + number * step_ns
        stamp_ns = 10**15 + index * 10**8
        for topic, _, message in recordings.pair(
                stamp_ns, image(number, 'left'), image(number, 'right'),
                Calibration(100 + number, 0.5, 32, 32, 24)):
            # The right image of a pair comes with the left one of the next.
            is_late = topic == '/right/image_rect'
            if index % 5 == 0 if topic.endswith('info') else not is_late or index % 7 != 6:
                recorded.append((topic, time_ns + is_late * step_ns, message))
        if number % 3:
            topic, _, message = recordings.truth(
                stamp_ns, np.full((48, 64), 3 + number % 5, np.float32))
            recorded.append((topic, time_ns, message))
    return recordings.write(path, recorded, kind, compression)


def of(*paths: pathlib.Path, limit: int = 0) -> sources.Sources:
    return sources.Sources(sources.inputs_of(paths), limit=limit)


KINDS = {
    'folder': lambda path, folder: folder,
    'mcap': lambda path, _: write(path),
    'messages compressed': lambda path, _: write(path, compression='MESSAGE'),
    'a compressed file': lambda path, _: write(path, 'sqlite3', 'FILE'),
    'stamps that come again': lambda path, _: write(path, rounds=3),
    'all at one time': lambda path, _: write(path, 'sqlite3', step_ns=0),
    'ROS 1': lambda path, _: write(path, 'ros1')}


def test_a_limit_ends_the_chunks_and_pairs_that_are_not_whole_leave_no_gap(tmp_path, folder):
    path = write(tmp_path / 'bag')
    for source in (folder, path):
        limited = of(source, limit=7)
        assert (limited.count, [chunk.stop for chunk in limited.chunks(4)]) == (7, [1, 5, 7])
        assert len(list(limited.pairs())) == 7
    whole = len(list(of(path).pairs()))
    assert whole < of(path).count           # left images without a partner
    assert [one.place for one in of(path, folder).chunks(100)] == [0, 1, whole, whole + 1]


def test_a_chunk_of_a_bag_decodes_and_reads_nothing_of_another(tmp_path, monkeypatch):
    from stereo_bp_ros.evaluation.bag_reader import Reader
    decoded, read = [], []
    decode, messages = bags.Reader.decode, Reader.messages
    monkeypatch.setattr(bags.Reader, 'decode', lambda self, kind, data: (
        decoded.append(kind), decode(self, kind, data))[1])

    def watched(self, *arguments, **options):
        for one in messages(self, *arguments, **options):
            read.append(one[1])
            yield one
    monkeypatch.setattr(Reader, 'messages', watched)
    bags.write_bag(tmp_path / 'bag', CALIBRATION, (
        (10**18 + index * 10**8, image(index, 'left'), image(index, 'right'),
         np.ones((48, 64), np.float32)) for index in range(PAIRS)))
    chunks = list(of(tmp_path / 'bag').chunks(5))
    # Of all camera_info that differ in nothing but their stamp one is enough.
    assert decoded == 2 * [bags.CAMERA_INFO]
    decoded.clear()
    read.clear()
    with sources.ChunkReader() as reader:
        list(reader.read(chunks[2]))
    assert sorted(decoded) == sorted(
        2 * [bags.CAMERA_INFO] + 10 * [bags.IMAGE] + 5 * [bags.COMPRESSED_IMAGE])
    times_ns = [time_ns for entry in chunks[2].entries for time_ns in entry.times_ns.values()]
    assert (min(read), max(read)) == (min(times_ns), max(times_ns))


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('size', [7, *slow(1, 100)])
def test_chunks_have_the_pairs_of_the_source_in_their_order(tmp_path, folder, kind, size):
    path = KINDS[kind](tmp_path / 'source', folder)
    wanted = list(sources.open_pairs(path)[1])
    chunks = list(of(path).chunks(size))
    assert [(one.start, one.stop) for one in chunks] == [
        (start, min(stop, len(wanted))) for start, stop in
        [(0, 1), *((start, start + size) for start in range(1, len(wanted), size))]]
    with sources.ChunkReader() as reader:
        # Backwards: no chunk needs another one.
        parts = [list(reader.read(chunk)) for chunk in reversed(chunks)]
    found = [pair for part in reversed(parts) for pair in part]
    assert len(found) == len(wanted) > 15
    for one, other in zip(found, wanted, strict=True):
        assert (one.name, one.stamp_ns, one.calibration) == (
            other.name, other.stamp_ns, other.calibration)
        for picture, same in zip(one.images, other.images, strict=True):
            assert np.array_equal(picture.pixels, same.pixels)
        assert (one.truth is None) == (other.truth is None)
        assert one.truth is None or np.array_equal(one.truth, other.truth)


def test_inputs_follow_each_other_in_chunks_as_well(tmp_path, folder):
    street = RoadSequence(width=64, height=48, max_disparity=12, frames=3)
    found = sources.Sources([sources.Input('bag', write(tmp_path / 'bag')),
                             sources.Input('street', street),
                             sources.Input('a/folder', folder)], limit=5)
    wanted = list(found.pairs())
    assert found.count == len(wanted) == 5 + 3 + 5
    assert [pair.input for pair in wanted] == 5 * ['bag'] + 3 * ['street'] + 5 * ['a/folder']
    assert every(pair.name.startswith(f'{pair.input}/') for pair in wanted)
    assert wanted[5].name == 'street/000000'
    chunks = list(found.chunks(3))
    assert [one.place for one in chunks] == [0, 1, 4, 5, 6, 8, 9, 12]
    with sources.ChunkReader() as reader:
        parts = [list(reader.read(chunk)) for chunk in reversed(chunks)]
        again = [pair for part in reversed(parts) for pair in part]
    assert [pair.name for pair in again] == [pair.name for pair in wanted]
    for one, other in zip(again, wanted, strict=True):
        assert every(np.array_equal(picture.pixels, same.pixels)
                     for picture, same in zip(one.images, other.images, strict=True))


def test_names_tell_inputs_apart(tmp_path):
    paths = [tmp_path / name for name in ('monday/left', 'tuesday/left', 'other/../third')]
    assert [one.name for one in sources.inputs_of(paths)] == [
        str(paths[0]), str(paths[1]), 'third']
    with pytest.raises(ValueError, match='third is there twice'):
        sources.inputs_of([*paths, tmp_path / 'third'])


def test_a_source_that_has_changed_is_refused(tmp_path, folder):
    *_, last = of(folder).chunks()
    for side in ('left', 'right'):
        (folder / side / '3.png').unlink()
    with sources.ChunkReader() as reader, pytest.raises(StereoError, match='has changed'):
        list(reader.read(last))
    *_, last = of(write(tmp_path / 'bag')).chunks()
    bags.write_bag(tmp_path / 'other', CALIBRATION,
                   [(1, image(0, 'left'), image(0, 'right'), None)])
    with sources.ChunkReader() as reader, pytest.raises(StereoError, match='has changed'):
        list(reader.read(dataclasses.replace(
            last, input=sources.Input('other', tmp_path / 'other'))))
