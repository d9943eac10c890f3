"""What a CUDA engine remembers of the last frame, where a frame or a change in between fails.

No device is touched; kernels are not run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import Calibration, MatcherConfig, RawImage
from stereo_bp_ros.engines.choice import create_engine
from stereo_bp_ros.engines.cuda.plan import resolve
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.engines.cuda.stages import convert
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from test.engines.support.cuda_stand_in import Context, stand_in

CONFIG = MatcherConfig(disparity_range=16, levels=3, backend='cuda')
CALIBRATION = Calibration(100.0, 100.0, 32.0, 32.0, 24.0, 0.1)


class Device:
    """Knows which graphs were launched, and that a stream records one frame at a time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.launched: list[Context] = []
        self.is_recording = False
        stand_in(monkeypatch)
        monkeypatch.setattr(Context, 'launch', lambda graph, _: self.launched.append(graph))
        monkeypatch.setattr(Context, 'begin_capture', lambda _: self.record(True))
        monkeypatch.setattr(Context, 'end_capture', lambda _: self.record(False))

    def record(self, begins: bool) -> Context:
        assert self.is_recording != begins
        self.is_recording = begins
        return Context()


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


@pytest.fixture
def engine(on: Device) -> Iterator[Any]:
    made = create_engine(CONFIG, 64, 48)
    yield made
    made.close()


@pytest.fixture
def pair() -> list[RawImage]:
    return [RawImage.from_array(np.zeros((48, 64), np.uint8)) for _ in range(2)]


def arrays(*names: str) -> dict[str, np.ndarray]:
    return {name: OUTPUTS[name].empty((48, 64), 1) for name in names}


def fail(*_: object, **__: object) -> None:
    raise RuntimeError('the device said no')


@contextlib.contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> Iterator[None]:
    """Meanwhile a function of the device's fails, and with it what the caller does."""
    with monkeypatch.context() as broken:
        broken.setattr(owner, name, fail)
        with pytest.raises(RuntimeError, match='said no'):
            yield


def test_after_a_frame_that_could_not_be_captured_the_one_before_is_itself_again(
        engine: Any, on: Device, pair: list[RawImage], monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = arrays('disparity'), arrays('disparity', 'confidence', 'depth')
    engine.compute(*pair, CALIBRATION, first)
    timings = engine.compute(*pair, CALIBRATION, first).keys()
    form, graph = engine._form, on.launched[-1]
    with failing(monkeypatch, engine._pipeline.outputs, 'enqueue'):
        engine.compute(*pair, CALIBRATION, other)
    assert not on.is_recording
    assert engine.compute(*pair, CALIBRATION, first).keys() == timings
    assert (engine._form, on.launched[-1]) == (form, graph)
    engine.compute(*pair, CALIBRATION, other)
    assert on.launched[-1] is not graph
    assert engine._form.steps.outputs != form.steps.outputs


def test_after_outputs_that_could_not_be_bound_those_before_are_bound_again(
        engine: Any, on: Device, pair: list[RawImage], monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = arrays('disparity'), arrays('disparity', 'confidence')
    engine.compute(*pair, CALIBRATION, first)
    graph, form = on.launched[-1], engine._form
    bound: list[tuple[str, ...]] = []
    bind = engine._bind_outputs

    def told(outputs: dict[str, Any]) -> None:
        bound.append(tuple(outputs))
        bind(outputs)
    monkeypatch.setattr(engine, '_bind_outputs', told)
    for outputs in (other, arrays('disparity')):
        with failing(monkeypatch, device, 'mapped_address'):
            engine.compute(*pair, CALIBRATION, outputs)
    engine.compute(*pair, CALIBRATION, first)
    assert bound[-1] == ('disparity',)
    assert engine._bindings['disparity'].array() is first['disparity']
    assert (engine._form, on.launched[-1]) == (form, graph)


def test_images_that_could_not_be_found_are_looked_at_again(
        engine: Any, pair: list[RawImage], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = arrays('disparity')
    engine.compute(*pair, CALIBRATION, outputs)
    others = [RawImage.from_array(np.zeros((48, 64), np.uint8)) for _ in range(2)]
    for _ in range(2):
        with failing(monkeypatch, convert, 'pinned_address'):
            engine.compute(*others, CALIBRATION, outputs)
    engine.compute(*others, CALIBRATION, outputs)
    assert [image() for image in engine._images] == others


def test_a_live_change_that_fails_leaves_the_settings_before(
        engine: Any, pair: list[RawImage], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = arrays('disparity')
    engine.compute(*pair, CALIBRATION, outputs)
    changed = CONFIG.replace(texture_threshold=10)
    assert CONFIG.is_live_change(changed)
    before, form = engine.config, engine._form
    with failing(monkeypatch, engine, '_capture'):
        engine.update(resolve(changed, engine.plan.device))
    assert engine.config == before
    engine.compute(*pair, CALIBRATION, outputs)
    assert engine._form == form
    engine.update(resolve(changed, engine.plan.device))
    engine.compute(*pair, CALIBRATION, outputs)
    assert engine.config.texture_threshold == 10
    assert engine._form != form


def test_parameters_that_could_not_be_filled_are_filled_before_the_next_frame(
        engine: Any, pair: list[RawImage], monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = arrays('disparity')
    engine.compute(*pair, CALIBRATION, outputs)
    filled: list[Calibration | None] = []

    def record(_config: MatcherConfig, calibration: Calibration | None) -> None:
        filled.append(calibration)
        if calibration is None:
            fail()
    monkeypatch.setattr(engine, '_fill', record)
    with pytest.raises(RuntimeError, match='said no'):
        engine.compute(*pair, None, outputs)
    for _ in range(2):
        engine.compute(*pair, CALIBRATION, outputs)
    assert filled == [None, CALIBRATION]
