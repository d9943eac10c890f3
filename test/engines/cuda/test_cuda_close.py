"""A CUDA matcher that is closed beside frames frees no memory that the device still uses.

``compute-sanitizer --tool memcheck python -m pytest -m gpu test/engines/cuda/test_cuda_close.py``
sees what a result does not show.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from test.engines.support.cuda_stand_in import stand_in
from test.engines.support.pairs import noisy_pair

CONFIG = MatcherConfig(backend='cuda', disparity_range=32, levels=3, iterations=4)

#: Seconds after which a test gives up, matchers that are closed, and frames of each at most.
LIMIT, MATCHERS, FRAMES = 60.0, 60, 20


def test_an_engine_is_closed_by_nobody_but_who_is_inside_the_matcher(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """On a new size, new settings and the end. No device: kernels are not run."""
    stand_in(monkeypatch)
    left, right = noisy_pair(64, 32)
    close, held = CudaEngine.close, []

    def told(engine: CudaEngine) -> None:
        held.append(matcher._entrance.lock.locked())
        close(engine)
    monkeypatch.setattr(CudaEngine, 'close', told)
    matcher = StereoMatcher(CONFIG)
    matcher.compute(left, right)
    matcher.submit(left[:24], right[:24]).result(LIMIT)
    matcher.reconfigure(CONFIG.replace(disparity_range=16))
    matcher.close()
    assert held == [True] * 3


@pytest.mark.gpu
@pytest.mark.parametrize('way', ['compute', 'submit'])
def test_a_frame_beside_close_is_whole_or_rejected(way: str) -> None:
    left, right = noisy_pair(320, 240)
    with StereoMatcher(CONFIG) as matcher:
        expected = matcher.compute(left, right).disparity
    for number in range(MATCHERS):
        matcher = StereoMatcher(CONFIG)
        matcher.prepare(320, 240)
        results, errors = list[Any](), list[str]()
        begun = threading.Event()

        def match(matcher: StereoMatcher = matcher, results: list[Any] = results,
                  errors: list[str] = errors, begun: threading.Event = begun) -> None:
            try:
                for _ in range(FRAMES):
                    begun.set()
                    results.append(matcher.compute(left, right) if way == 'compute'
                                   else matcher.submit(left, right))
            except RuntimeError as error:
                errors.append(str(error))
        thread = threading.Thread(target=match, daemon=True)
        thread.start()
        assert begun.wait(LIMIT)
        threading.Event().wait(0.0002 * (number % 20))
        matcher.close()
        thread.join(LIMIT)
        assert not thread.is_alive()
        frames = results if way == 'compute' else [one.result(timeout=0) for one in results]
        assert len(frames) == FRAMES or errors == ['this matcher is closed']
        for frame in frames:
            np.testing.assert_array_equal(frame.disparity, expected)
