"""StereoStream: the pairs of one camera in their order, checked, corrected and matched."""

from __future__ import annotations

import pathlib
import re
import threading
import time
import types

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros import (
    Calibration,
    ConfigError,
    InputError,
    IssueCode,
    MatcherConfig,
    StereoMatcher,
    StereoStream,
)
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from stereo_bp_ros.stream import observer
from test.drives import write_drive

SETTINGS = {'backend': 'cpu', 'stereo_algorithm': 'sad', 'disparity_range': 32,
            'row_correction': 'correct'}
CONFIG = MatcherConfig(**SETTINGS)
MOVED, RIGHT = (RoadSequence(width=320, height=160, max_disparity=30, rate_hz=2, frames=10,
                             misalignment=Misalignment(vertical_offset_px=rows))
                for rows in (1.5, 0.0))


def add(stream: StereoStream, number: int, scene: RoadSequence = MOVED,
        stamp: float | None = None) -> float:
    frame = scene.frame(number)
    return stream.add(frame.left, frame.right, stamp=stamp).corrected_px


def test_the_first_pair_is_corrected_by_itself_and_later_ones_by_what_came_before() -> None:
    with StereoStream(CONFIG) as stream:
        first = add(stream, 0, stamp=0.0)
        assert first == pytest.approx(1.5, abs=0.15)
        # A pair that contradicts them changes nothing before another one confirms it.
        assert add(stream, 1, RIGHT, stamp=0.5) == first
        assert add(stream, 2, stamp=1.0) == first
        assert stream.rows.estimate is not None


@pytest.mark.parametrize('change', ['a gap', 'a jump back', 'no stamp', 'another size',
                                    'another calibration', 'clear'])
def test_a_sequence_begins_anew(change: str) -> None:
    one, other = (Calibration(focal, 0.3, 160.0, 160.0, 80.0) for focal in (250.0, 251.0))
    with StereoStream(CONFIG, calibration=one) as stream:
        assert add(stream, 0, stamp=50.0) > 1
        frame, stamp = RIGHT.frame(1), {
            'a gap': 61.0, 'a jump back': 49.0, 'no stamp': None}.get(change, 50.5)
        left, right = frame.left, frame.right
        if change == 'another size':
            left, right = (np.ascontiguousarray(image[:, :310]) for image in (left, right))
        if change == 'clear':
            stream.clear()
        result = stream.add(left, right, stamp=stamp, calibration=(
            other if change == 'another calibration' else None))
        assert result.corrected_px == 0


def test_exchanged_images_are_rejected_at_once_unless_others_of_the_sequence_were_right() -> None:
    frame = RIGHT.frame(0)
    with StereoStream(CONFIG) as stream:
        with pytest.raises(InputError) as caught:
            stream.add(frame.right, frame.left)
        assert caught.value.code is IssueCode.EXCHANGED_IMAGES
        assert stream.add(frame.left, frame.right, stamp=1.0).issues == []
        stream.add(frame.right, frame.left, stamp=2.0)
        with pytest.raises(InputError):
            stream.add(frame.right, frame.left, stamp=3.0)
        stream.add(frame.left, frame.right, stamp=4.0)


def test_rows_beyond_the_limit_are_an_issue_and_those_that_are_corrected_are_none() -> None:
    with StereoStream(CONFIG, row_correction_limit=1.0) as stream:
        frame = MOVED.frame(0)
        result = stream.add(frame.left, frame.right)
        issue, = (one for one in result.issues if one.code is not IssueCode.PILED_UP)
        assert (issue.code, result.corrected_px) == (IssueCode.VERTICAL_OFFSET, 0)
        assert 'beyond the limit of 1 px' in issue.text
        stream.reconfigure(CONFIG)
        assert stream.add(frame.left, frame.right).issues == []


def test_no_frame_waits_for_what_is_measured_in_the_background(
        monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    measure = observer.row_points

    def waiting(*arguments: object) -> np.ndarray:
        begun.set()
        assert goes_on.wait(60)
        return measure(*arguments)      # type: ignore[arg-type]

    monkeypatch.setattr(observer, 'row_points', waiting)
    with StereoStream(CONFIG, measuring='background') as stream:
        assert add(stream, 0, stamp=0.0) == 0
        assert begun.wait(60)
        assert add(stream, 1, stamp=0.5) == 0
        goes_on.set()
        until = time.monotonic() + 60
        while stream.rows.estimate is None and time.monotonic() < until:
            time.sleep(0.01)
        assert add(stream, 2, stamp=1.0) == pytest.approx(1.5, abs=0.15)


def test_auto_is_chosen_with_the_first_pair_as_a_matcher_of_its_size_would() -> None:
    settings = {'backend': 'cpu', 'num_threads': 1, 'disparity_range': 32}
    with (StereoStream('auto', **settings) as stream,
          StereoMatcher('auto', size=(320, 160), **settings) as matcher):
        with pytest.raises(RuntimeError, match='the first pair'):
            assert stream.config
        add(stream, 0)
        assert stream.config == matcher.config


def test_what_a_stream_cannot_take_is_named() -> None:
    with pytest.raises(ConfigError, match="measuring is 'later', but must be one of inline"):
        StereoStream(CONFIG, measuring='later')
    with StereoStream(CONFIG) as stream:
        frame = RIGHT.frame(0)
        on_device = types.SimpleNamespace(__cuda_array_interface__={
            'shape': frame.left.shape, 'typestr': '|u1', 'data': (1 << 40, True), 'version': 3,
            'strides': None})
        with pytest.raises(InputError, match='bad array'):
            stream.add(on_device, on_device)


def test_the_example_of_the_readme_plays_a_folder(
        repository: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    example, = (block for block in re.findall(r'```python\n(.*?)```', (
        repository / 'README.md').read_text(encoding='utf-8'), re.DOTALL)
        if 'StereoStream' in block)
    write_drive(tmp_path, MOVED, first_ns=10**18)
    monkeypatch.chdir(tmp_path)
    exec(example.replace("'auto'", repr('sad_fast')), {})
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(' ')[0] for line in printed] == sorted(
        path.name for path in (tmp_path / 'left').iterdir())
    assert len(list(tmp_path.glob('*.png'))) == 2
