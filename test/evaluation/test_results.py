"""Figures of all frames: times on a device's clock, memory, and what CUDA alone has."""

from __future__ import annotations

import numpy as np
import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.cli import evaluate_report
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.results import Figures, Result, most, totals_of
from stereo_bp_ros.evaluation.runs import Evaluation, Method
from stereo_bp_ros.evaluation.sources import Pair
from stereo_bp_ros.evaluation.timing import device_ms
from stereo_bp_ros.types import ENGINE_STAGES
from test.cases import every


def result(name: str, device: float | None, engine: int | None, process: int | None) -> Result:
    flat = np.full((4, 6), 3, np.float32)
    frame = score_frame(flat, flat > 0, flat)
    own = Figures((3.0, 5.0), frame, {'cost': 2.0}, device, engine)
    return Result(name, 6, 4, {'own': own, 'sgbm': Figures((8.0,), frame)}, process)


def test_the_device_has_a_row_of_its_own_beside_the_stages():
    results = [result('a', 1.0, 100, 900), result('b', 3.0, 300, 950)]
    found = totals_of(results).matchers
    own = found['own'].to_dict()
    assert list(own['latency_ms']) == ['total', 'device', 'cost']
    assert own['latency_ms']['device'] == pytest.approx({'p50': 2.0, 'p99': 2.98, 'p99.9': 2.998})
    assert own['mean']['device_ms'] == 2.0
    assert own['engine_bytes'] == 300
    assert 'engine_bytes' not in own['mean']
    other = found['sgbm'].to_dict()
    assert list(other['latency_ms']) == ['total']
    assert (other['engine_bytes'], other['mean']['device_ms']) == (None, None)
    assert results[0].to_dict()['process_bytes'] == 900
    assert results[0].to_dict()['against']['sgbm']['engine_bytes'] is None


def test_tiles_show_the_device_and_memory_where_they_are_known():
    results = [result('a', 1.0, 3 * 2**20, 64 * 2**20)]
    tiles = {what: figure for figure, what in evaluate_report.tiles(totals_of(results))}
    assert tiles['median time on the device'] == '1.00 ms'
    assert tiles['p99 of 2 times'] == '5.0 ms'
    assert tiles['memory of the engine'] == '3 MiB'
    assert tiles['memory of the process'] == '64 MiB'
    results = [result('a', None, None, None)]
    tiles = {what for _, what in evaluate_report.tiles(totals_of(results))}
    assert not [what for what in tiles if 'memory' in what or 'device' in what]


def test_the_device_measures_all_but_what_the_host_does():
    stages = dict.fromkeys(ENGINE_STAGES, 1.0) | {'upload': 50.0, 'download': 70.0}
    assert device_ms('cuda', stages) == 5.0
    assert device_ms('cuda', {'cost': 0.25, 'messages': 2.0}) == 2.25
    assert device_ms('cpu', stages) is None


def test_the_largest_of_none_is_none():
    assert most([None, 4, 9, None]) == 9
    assert most([None]) is None
    assert most([]) is None


def test_an_engine_tells_its_memory_for_every_size(textured_pair):
    pytest.importorskip('numba')
    config = MatcherConfig(disparity_range=16, levels=3, iterations=4, backend='cpu')
    with Evaluation({'own': config}, ['bm'], Method(repeat=1)) as evaluation:
        small, large = (evaluation.judge(Pair(str(width), *textured_pair(width, 48, 4))).result
                        for width in (64, 128))
    figures = [one.matchers['own'] for one in (small, large)]
    assert 0 < figures[0].engine_bytes < figures[1].engine_bytes < large.process_bytes
    assert large.matchers['bm'].engine_bytes is None
    assert every(one.device_ms is None for one in figures)        # the CPU has no clock of its own
