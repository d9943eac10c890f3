"""Times measured on one card are scaled to others; on that card nothing changes."""

from __future__ import annotations

import dataclasses
import types
from typing import Any

import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines.cuda.hierarchical import schedule, time_model
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat, levels
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL, Properties, Speed

#: Attributes as their data sheets have them: MHz, bytes per us, bytes.
H100 = dataclasses.replace(TYPICAL, name='NVIDIA H100', bandwidth=3.35e6)
ORIN = dataclasses.replace(
    TYPICAL, name='Orin', capability=(8, 7), multiprocessors=16, shared_memory=163 * 1024,
    shared_memory_sm=164 * 1024, clock=1300.0, bandwidth=0.2e6, l2_cache=4 * 2**20)


def times(config: MatcherConfig, on: Properties) -> list[float]:
    """Predicted microseconds of the launches that the H200 has."""
    message, pyramid = MessageFormat.of(config), levels(config, 640, 480)
    return [time_model.predicted(message, config.disparity_range, pyramid[step.level], step, on)
            for step in schedule.launches(config, 640, 480, TYPICAL)]


def test_the_measured_architecture_is_the_measure() -> None:
    assert TYPICAL.speed == H100.speed == Speed(1.0, 1.0, 1.0, 1.0)


def test_another_architecture_is_scaled_by_its_attributes() -> None:
    speed = ORIN.speed
    assert speed.clock == pytest.approx(1300 / 1980)
    assert speed.chip == pytest.approx(1300 / 1980 * 16 / 132)
    assert speed.memory == pytest.approx(0.2 / 4.9)
    assert speed.cache == pytest.approx(4 / 50)


@pytest.mark.parametrize('settings', [{}, {'message_type': 'float32'}, {'exact': False,
                                                                        'levels': 3}])
@pytest.mark.parametrize('disparities', [16, 64, 128])
def test_every_launch_takes_longer_on_a_slower_device(settings: dict[str, Any],
                                                      disparities: int) -> None:
    config = MatcherConfig.from_mapping({'backend': 'cuda', 'disparity_range': disparities,
                                         **settings})
    fast = dataclasses.replace(TYPICAL, capability=(8, 0))
    assert times(config, fast) == times(config, TYPICAL)
    measured = times(config, TYPICAL)
    for change in ({'clock': 990.0}, {'bandwidth': 1e6}, {'l2_cache': 2**20}):
        slow = times(config, dataclasses.replace(fast, **change))
        assert [now >= before for now, before in zip(slow, measured, strict=True)] == [
            True] * len(measured)
    halved = times(config, dataclasses.replace(fast, clock=990.0, bandwidth=2.45e6))
    assert sum(halved) > 1.2 * sum(measured)


def test_a_device_is_asked_for_what_scales_times(monkeypatch: pytest.MonkeyPatch) -> None:
    from_driver = {13: 1_980_000, 36: 3_201_000, 37: 6144, 38: 60 * 2**20}
    runtime: Any = types.SimpleNamespace(
        CUDARuntimeError=RuntimeError, cudaDevAttrClockRate=13, cudaDevAttrMemoryClockRate=36,
        cudaDevAttrGlobalMemoryBusWidth=37, cudaDevAttrL2CacheSize=38,
        deviceGetAttribute=lambda attribute, index: from_driver[attribute])
    assert device._rates(0, runtime) == {
        'clock': 1980.0, 'bandwidth': pytest.approx(4.9e6, rel=0.01), 'l2_cache': 60 * 2**20}
    # A driver that does not say, as on some virtual devices: the measured one's stand in.
    from_driver.update({36: 0, 38: 0})
    assert device._rates(0, runtime) == {'clock': 1980.0}

    def fail(attribute: int, index: int) -> int:
        raise RuntimeError('invalid value')
    runtime.deviceGetAttribute = fail
    assert device._rates(0, runtime) == {}
