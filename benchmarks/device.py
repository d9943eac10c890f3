"""Times on the clock of a CUDA device: launches in a graph, without the host's part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy


def graph(stream: Any, launch: Callable[[], object], count: int = 1) -> Any:
    """A CUDA graph of ``count`` calls that launch on the stream."""
    with stream:
        stream.begin_capture()
        for _ in range(count):
            launch()
        return stream.end_capture()


def microseconds(stream: Any, launched: Any, repeats: int, *, uncounted: int = 0
                 ) -> list[float]:
    """Of each of ``repeats`` runs of a graph, after some that warm up."""
    times = []
    for _ in range(uncounted + repeats):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record(stream)
        launched.launch(stream)
        end.record(stream)
        end.synchronize()
        times.append(cupy.cuda.get_elapsed_time(begin, end) * 1e3)
    return times[uncounted:]
