"""Whatever the files are, a verb ends with one line and a status.

``make fuzz`` tries a million more.
"""

from __future__ import annotations

import pathlib

import cv2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stereo_bp_ros.cameras.calibration import Calibration
from test.cases import examples
from test.cli import recordings
from test.cli.recordings import rewritten
from test.cli.runs import check, run, steady, words

FAST = ('--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set', 'disparity_range=8',
        '--set', 'correlation_window_size=5')


def damaged(content: bytes) -> st.SearchStrategy[bytes]:
    """The same bytes cut short, with some of them changed, or others altogether."""
    def change(edits: list[tuple[int, int]]) -> bytes:
        changed = bytearray(content)
        for place, value in edits:
            changed[place] ^= value
        return bytes(changed)
    places = st.integers(0, len(content) - 1) | st.integers(0, min(199, len(content) - 1))
    return st.one_of(
        st.integers(0, len(content)).map(lambda end: content[:end]),
        st.lists(st.tuples(places, st.integers(1, 255)), min_size=1, max_size=8).map(change),
        st.binary(max_size=60))


CALIBRATION = ('cam0=[100 0 32; 0 100 24; 0 0 1]\ncam1=[100 0 34; 0 100 24; 0 0 1]\n'
               'doffs=2\nbaseline=600\nndisp=8\n')


@pytest.fixture
def pair(tmp_path, write_pair) -> pathlib.Path:
    """A folder with left.png, right.png, disparity.pfm and calib.txt."""
    folder = write_pair(tmp_path / 'sets/pair', 4, 64)
    (folder / 'calib.txt').write_text(CALIBRATION)
    return folder


def match(folder: pathlib.Path, truth: str) -> int:
    return check('match', str(folder / 'left.png'), str(folder / 'right.png'), '--calibration',
                 str(folder / 'calib.txt'), '--truth', str(folder / truth), '--depth',
                 str(folder / 'out.pfm'), '-o', str(folder / 'out.png'), *FAST)


@pytest.mark.parametrize('name', ['left.png', 'disparity.pfm', 'calib.txt'])
def test_a_damaged_file_of_a_pair_ends_in_a_status(pair, name):
    def match() -> int:
        return check('match', str(pair / 'left.png'), str(pair / 'right.png'), '--calibration',
                     str(pair / 'calib.txt'), '--truth', str(pair / 'disparity.pfm'), '--depth',
                     str(pair / 'out.pfm'), '-o', str(pair / 'out.png'), *FAST)

    assert match() == 0

    @settings(steady, max_examples=examples(30))
    @given(content=damaged((pair / name).read_bytes()))
    def holds(content: bytes) -> None:
        (pair / name).write_bytes(content)
        match()
    holds()


@settings(steady, max_examples=examples(20))
@given(left=st.tuples(st.integers(1, 40), st.integers(1, 40)), kind=st.sampled_from(
    ['u1', 'u2', 'rgb', 'rgba', 'wide']))
def test_images_of_any_size_and_kind_end_in_a_status(tmp_path, left, kind):
    shape = (*left, {'rgb': 3, 'rgba': 4, 'wide': 3}.get(kind, 1))
    image = np.random.default_rng(0).integers(0, 256, shape).astype(
        'u2' if kind in ('u2', 'wide') else 'u1')
    for side in ('left', 'right'):
        cv2.imwrite(str(tmp_path / f'{side}.png'), image)
    for algorithm in ('sad', 'bp', 'tiled_bp'):
        check('match', str(tmp_path / 'left.png'), str(tmp_path / 'right.png'), '-o',
              str(tmp_path / 'out.pfm'), *FAST, '--set', f'stereo_algorithm={algorithm}')


@settings(steady, max_examples=examples(30))
@given(parts=st.tuples(words, words, words), whole=st.none() | st.binary(max_size=30))
@example(('pair', '.inf', '8'), None)
@example(('pair', '16', '.inf'), None)
@example(('pair', '16', '.nan'), None)
@example(('pair', '&a [*a]', '*a'), None)
def test_any_sets_yaml_ends_in_a_status(pair, parts, whole):
    name, disparities, scale = (part.encode('utf-8', 'surrogateescape') for part in
                                (text.encode('utf-8', 'replace').decode() for text in parts))
    (pair.parent / 'sets.yaml').write_bytes(
        whole if whole is not None else b'%s: {disparities: %s, disparity_scale: %s}\n' % (
            name, disparities, scale))
    check('evaluate', str(pair.parent), '--repeat', '1', *FAST)
    check('evaluate', str(pair), '--repeat', '1', *FAST)


def write_bag(path: pathlib.Path, textured_pair, kind: str = 'sqlite3') -> None:
    calibration, truth = Calibration(100, 0.5, 32, 32, 24), np.full((48, 64), 4, np.float32)
    recordings.write(path, [one for stamp_ns in (10**18, 10**18 + 10**8) for one in (
        *recordings.pair(stamp_ns, *textured_pair(64, 48, 4), calibration),
        recordings.truth(stamp_ns, truth))], kind)


@pytest.mark.parametrize(('kind', 'suffix'), [('sqlite3', 'db3'), ('mcap', 'mcap')])
def test_a_damaged_bag_ends_in_a_status(tmp_path, textured_pair, kind, suffix):
    bag = tmp_path / 'bag'
    write_bag(bag, textured_pair, kind)
    storage, = bag.glob(f'*.{suffix}')
    sound = {path: path.read_bytes() for path in (storage, bag / 'metadata.yaml')}
    assert check('evaluate', str(bag), '--repeat', '1', *FAST) == 0

    @settings(steady, max_examples=examples(20))
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from([storage, storage, storage, bag / 'metadata.yaml']))
        for other, content in sound.items():
            other.write_bytes(content)
        path.write_bytes(data.draw(damaged(sound[path])))
        check('evaluate', str(bag), '--repeat', '1', *FAST)
    holds()


@pytest.mark.parametrize('content', [b'', b'\0\1\0\0', b'\0\1\0\0' + b'\xff' * 40])
def test_a_damaged_message_is_named_by_its_topic_and_number(tmp_path, textured_pair, content):
    write_bag(tmp_path / 'bag', textured_pair)
    rewritten(tmp_path / 'bag', tmp_path / 'damaged', '/right/image_rect', [1], lambda _: content)
    status, _, err = run('evaluate', str(tmp_path / 'damaged'), '--repeat', '1', *FAST)
    assert status == 2
    assert 'message 2 of /right/image_rect is damaged' in err


@pytest.mark.ros
@pytest.mark.parametrize(('content', 'expected', 'words'), [
    (b'\0\1\0\0', 2, 'message 2 of /right/image_rect is damaged'),
    (b'\0\1\0\0\xff\xff\xff\x7f' + bytes(40), 0, '1147483646.900 s off the times of recording')],
    ids=['short', 'stamp'])
def test_a_damaged_message_of_a_replay_is_named_in_one_line(tmp_path, textured_pair, caplog,
                                                            content, expected, words):
    pytest.importorskip('rclpy')
    write_bag(tmp_path / 'bag', textured_pair)
    rewritten(tmp_path / 'bag', tmp_path / 'damaged', '/right/image_rect', [1], lambda _: content)
    status, _, err = run('replay', str(tmp_path / 'damaged'), '--wait', '0')
    assert status == expected
    assert sum(words in line for line in (*err.splitlines(), *caplog.messages)) == 1
    assert 'Traceback' not in err
