"""``min_depth`` in the node without ROS: what is checked, compiled, judged and said."""

from __future__ import annotations

import time
import types
from typing import Any

import pytest

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.engines import choice, geometry, host_memory
from stereo_bp_ros.engines.backend import SHARE, Resolved
from stereo_bp_ros.engines.cuda.backend import CudaBackend
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.errors import ConfigError, MemoryLimitError
from stereo_bp_ros.node.diagnostics.report import device_status
from stereo_bp_ros.node.matcher_host import MatcherHost
from stereo_bp_ros.node.reconfiguration import Reconfiguration
from test.node.processes import LIMIT
from test.node.stand_ins import NOW, SECOND, Bench, FakeMatcher, make_info

#: SAD has no partitions: what does not fit is refused.
CONFIG = MatcherConfig(stereo_algorithm='sad', disparity_range=16, min_depth=1.0, backend='cpu')


def infos(baseline: float = 0.2, **fields: Any) -> tuple[Any, Any]:
    """Of a pair that shows 1 m at 100 x ``baseline`` pixels."""
    return tuple(make_info(side=side, baseline=baseline, **fields)      # type: ignore
                 for side in ('left', 'right'))


@pytest.fixture
def keeper() -> Reconfiguration:
    """One whose engine is for nothing in particular, and whose worker does what it is told."""
    choice.choose(CONFIG)              # as the worker has done by then
    host = MatcherHost(FakeMatcher)
    host.build(CONFIG, 0, 0)
    said: list[str] = []
    made = Reconfiguration(
        matcher_host=host, worker=types.SimpleNamespace(post=lambda command: command()),
        mailbox=types.SimpleNamespace(reconfiguring=False), log=lambda text: None,
        issues=types.SimpleNamespace(
            clear=lambda code: said.clear(), add=lambda code, text: said.append(text)))
    made.said = said                    # type: ignore[attr-defined]
    return made


def wanted(**changes: Any) -> Any:
    return types.SimpleNamespace(matcher=CONFIG.replace(**changes), node=NodeConfig())


def wait_for_compiler(keeper: Reconfiguration) -> None:
    """Until this one's has compiled, and what was asked for is applied."""
    end = time.monotonic() + LIMIT
    while keeper.compiling:
        assert time.monotonic() < end
        time.sleep(0.001)
    with keeper._lock:                  # held until it is applied
        pass


def test_a_parameter_out_of_reach_is_refused_once_the_calibration_is_known(
        keeper: Reconfiguration, monkeypatch: pytest.MonkeyPatch) -> None:
    near = CONFIG.replace(min_depth=0.01)
    keeper.check(CONFIG, near, NodeConfig())
    keeper.expect(*infos(), wanted())
    with monkeypatch.context() as patch:
        patch.setattr(choice, 'resolve', lambda *_: pytest.fail('asked a device'))
        keeper.check(CONFIG, CONFIG.replace(min_depth=0.5), NodeConfig())
    with pytest.raises(ConfigError, match=r'at disparity 2000, .* set it to at least 0\.04'):
        keeper.check(CONFIG, near, NodeConfig())
    # Other settings can still be changed, also where the calibration came last.
    keeper.check(near, near.replace(speckle_size=5), NodeConfig())
    keeper.check(near, CONFIG, NodeConfig())


def test_camera_infos_that_put_min_depth_out_of_reach_are_told_before_the_first_pair(
        keeper: Reconfiguration) -> None:
    keeper.expect(*infos(baseline=20.0), wanted())
    text, = keeper.said                 # type: ignore[attr-defined]
    assert 'no engine for 32 x 24: min_depth is 1' in text


def test_the_memory_of_a_parameter_is_that_of_the_range_by_the_calibration(
        keeper: Reconfiguration, monkeypatch: pytest.MonkeyPatch) -> None:
    def plan(disparities: int) -> int:
        config = CONFIG.replace(min_depth=0.0, disparity_range=disparities)
        return choice.resolve(config).lay_out(32, 24).memory.total
    free = int((plan(24) + plan(48)) / 2 / SHARE)
    monkeypatch.setattr(host_memory, 'available', lambda **_: free)
    keeper.expect(*infos(), wanted())
    for depth in (1.0, 0.9):
        keeper.check(CONFIG.replace(min_depth=5.0), CONFIG.replace(min_depth=depth), NodeConfig())
    with pytest.raises(MemoryLimitError):
        keeper.check(CONFIG, CONFIG.replace(min_depth=0.45), NodeConfig())


def test_on_cuda_the_kernels_of_the_range_are_compiled_ahead(
        keeper: Reconfiguration, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = CudaBackend(TYPICAL, '')
    monkeypatch.setattr(CudaBackend, 'free_memory', lambda _: TYPICAL.memory)
    monkeypatch.setattr(CudaBackend, 'describe', lambda *_: 'a typical device')
    for name in ('resolve', 'known'):
        monkeypatch.setattr(choice, name, lambda config, calibration=None: Resolved(
            config, geometry.effective(config, calibration), backend))
    compiled: list[tuple[int, int, int]] = []
    keeper._warm_up = lambda resolved, *size: compiled.append(
        (resolved.config.disparity_range, *size))
    parameters = wanted()
    keeper.expect(*infos(), parameters)
    wait_for_compiler(keeper)
    assert compiled == [(24, 32, 24)]
    parameters.matcher = CONFIG.replace(min_depth=0.5)
    keeper.reconcile(parameters)
    wait_for_compiler(keeper)
    assert compiled[1:] == [(48, 32, 24)]
    assert keeper._matcher_host.effective_config == CONFIG.replace(min_depth=0.0,
                                                                  disparity_range=48)
    assert not keeper.said              # type: ignore[attr-defined]


def test_what_is_rectified_to_another_size_is_searched_by_its_own_focal_length(
        keeper: Reconfiguration) -> None:
    config = CONFIG.replace(rectify=True, rectified_width=64, rectified_height=48)
    keeper.expect(*infos(), wanted())
    found = [keeper._known(one) for one in (
        config, config.replace(rectified_width=0, rectified_height=0))]
    assert [one and one.config.disparity_range for one in found] == [48, 24]


def test_frames_follow_the_calibration_and_are_judged_by_its_range() -> None:
    bench = Bench(config=CONFIG)
    for k, (baseline, last) in enumerate(((0.1, 15), (0.14, 15), (0.2, 23)), 1):
        bench.left_info, bench.right_info = infos(baseline)
        bench.process(NOW - 3 * SECOND // 10 + k * SECOND // 10)
        assert bench.outputs.published[-1][1].frame.max_disparity == last
        assert bench.observer.quality is not None
        assert bench.observer.quality.nearest == pytest.approx(100 * baseline / last)
    bench.left_info, bench.right_info = infos(20.0)     # out of reach
    bench.process(NOW + 1)
    assert bench.outcome()['published'] == 3
    assert 'set it to at least 3.914' in bench.texts('engine')


def test_the_status_says_how_far_is_searched_and_why() -> None:
    def said(matcher: FakeMatcher) -> str:
        report = types.SimpleNamespace(matcher=matcher, state='active', device={}, issues=[],
                                       settings=NodeConfig(), preset='none')
        return str(device_status(report)[2]['disparities'])     # type: ignore[arg-type]
    matcher = FakeMatcher(CONFIG)
    assert said(matcher) == '0 to 15: min_depth 1 m waits for a calibration'
    matcher.prepare(32, 24, types.SimpleNamespace(focal_px=100.0, baseline_m=0.2, shift=0.0))
    assert said(matcher) == '0 to 23: as far as min_depth 1 m'
    assert said(FakeMatcher(CONFIG.replace(min_depth=0.0))) == '0 to 15'
