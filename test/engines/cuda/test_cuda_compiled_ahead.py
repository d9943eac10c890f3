"""Kernels that are compiled before an engine asks for them, by several threads at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stereo_bp_ros.engines.cuda.runtime import compiler, device


class Guarded(dict[Any, Any]):
    """What is compiled ahead; touched by nobody without the lock."""

    def check(self) -> None:
        assert compiler._lock._is_owned()       # type: ignore[attr-defined]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.check()
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self.check()
        super().__delitem__(key)

    def __contains__(self, key: object) -> bool:
        self.check()
        return super().__contains__(key)


def test_kernels_compiled_ahead_are_kept_under_the_lock_and_their_number_is_bounded(
        monkeypatch: pytest.MonkeyPatch) -> None:
    ahead = Guarded()
    monkeypatch.setattr(compiler, '_ahead', ahead)
    monkeypatch.setattr(compiler, '_loaded', {})
    monkeypatch.setattr(compiler, 'compiled', lambda file, name, _: (b'code', name))

    def compile_some(thread: int) -> None:
        for k in range(4):
            compiler.compile_ahead(device.TYPICAL, {
                (f'{thread}.cu', f'kernel_{k}_{i:03}') for i in range(compiler.MAX_AHEAD // 4)})
    threads = [threading.Thread(target=compile_some, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ahead) == compiler.MAX_AHEAD
    # What was asked for last is there.
    latest = [(f'{k}.cu', f'last_{k}') for k in range(10)]
    compiler.compile_ahead(device.TYPICAL, latest)
    assert [key[1:] for key in ahead][-10:] == latest


def test_kernels_that_threads_compile_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    origins = compiler.origins()
    threads = [threading.Thread(target=lambda: [compiler._count('disk') for _ in range(2000)])
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert compiler.origins()['disk'] == origins['disk'] + 8000
    compiler._origins['disk'] -= 8000
