"""Pinned memory of the device in use; no device is touched."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros.engines.cuda.runtime import device, pinned
from test.engines.support.cuda_stand_in import Context


def test_pinned_memory_is_that_of_the_device_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy
    import cupyx
    entered: list[object] = []

    class Numbered(Context):
        def __init__(self, index: int) -> None:
            self.index = index

        def __enter__(self) -> Context:
            entered.append(self.index)
            return self

        def __exit__(self, *_: object) -> None:
            entered.append('left')

    def empty(shape: tuple[int, ...], dtype: str) -> np.ndarray:
        entered.append(shape)
        return np.empty(shape, dtype)
    monkeypatch.setattr(device, 'require', lambda index: entered.append(f'asked {index}'))
    monkeypatch.setattr(cupy.cuda, 'Device', Numbered)
    monkeypatch.setattr(cupyx, 'empty_pinned', empty)
    assert pinned.empty((3, 4), 'int16', 1).dtype == np.int16
    assert entered == ['asked 1', 1, (3, 4), 'left']
