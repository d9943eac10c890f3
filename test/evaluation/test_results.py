"""Figures of all frames, those of CUDA alone among them, and results that stay on the disk."""

from __future__ import annotations

import gc
import io
import json
import tracemalloc

import numpy as np
import pytest

from stereo_bp_ros import Calibration, MatcherConfig
from stereo_bp_ros.cli import evaluate_report
from stereo_bp_ros.evaluation import regions
from stereo_bp_ros.evaluation.frame_scores import score_frame
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.results import Figures, Result, Results, totals_of
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.evaluation.timing import device_ms
from stereo_bp_ros.frame.disparity_frame import ENGINE_STAGES
from stereo_bp_ros.sources.pairs import Pair
from test.cases import every


def result(name: str, device: float | None, engine: int | None, process: int | None) -> Result:
    flat = np.full((4, 6), 3, np.float32)
    frame = score_frame(flat, flat > 0, flat)
    own = Figures((3.0, 5.0), frame, {'cost': 2.0}, device, engine)
    return Result(name, 6, 4, {'own': own, 'sgbm': Figures((8.0,), frame)}, process)


def test_the_device_has_a_row_of_its_own_beside_the_stages():
    stages = dict.fromkeys(ENGINE_STAGES, 1.0) | {'upload': 50.0, 'download': 70.0}
    assert (device_ms('cuda', stages), device_ms('cpu', stages)) == (5.0, None)
    results = [result('a', 1.0, 100, 900), result('b', 3.0, 300, 950)]
    found = totals_of(results).matchers
    own = found['own'].to_dict()
    assert list(own['latency_ms']) == ['total', 'device', 'cost']
    assert own['latency_ms']['device'] == pytest.approx(
        {'p50': 2.0, 'p95': 2.9, 'p99': 2.98, 'p99.9': 2.998, 'max': 3.0})
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
    tiles, table = evaluate_report.overview(totals_of(results))
    assert tiles.tiles == [('1', 'pairs'), ('64 MiB', 'memory of the process')]
    # Both matchers have the same rows.
    assert table.columns == ('', 'own', 'sgbm')
    rows = {what: figures for what, *figures in table.rows}
    assert rows['median time on the device'] == ['1.00 ms', '-']
    assert rows['p99 of 2 times'][0] == '5.0 ms'
    assert rows['memory of the engine'] == ['3 MiB', '-']
    assert rows['bad-3, all pixels of all frames'][1] != '-'
    results = [result('a', None, None, None)]
    tiles, table = evaluate_report.overview(totals_of(results))
    assert not [what for _, what in tiles.tiles if 'memory' in what]
    assert not [what for what, *_ in table.rows if 'memory' in what or 'device' in what]
    del results[0].matchers['sgbm']
    tiles, = evaluate_report.overview(totals_of(results))
    assert [what for _, what in tiles.tiles][:2] == ['pairs', 'median time']


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


FRAMES = 12
CALIBRATION = Calibration(100, 0.5, 16, 16, 12)


def frame(number: int) -> Result:
    """With truth and a calibration: regions, errors in metres, histograms."""
    random = np.random.default_rng(number)
    truth = np.tile(np.linspace(2, 30, 32, dtype=np.float32), (24, 1))
    found = truth + random.normal(0, 1, truth.shape).astype(np.float32)
    scores = score_frame(found, random.random(truth.shape) > 0.1, truth, calibration=CALIBRATION,
                         regions=regions.find_regions(truth, truth > 20, CALIBRATION))
    return Result(f'{number:06}', 32, 24, {
        'own': Figures([1.0 + number, 2.0], scores, {'cost': 0.5}, None, 100, 16),
        'bm': Figures([3.0], scores, disparity_range=16)}, 1000 + number, 'ab'[number % 2])


@pytest.fixture(scope='module')
def both() -> tuple[list[Result], Results]:
    results, kept = [frame(number) for number in range(FRAMES)], Results()
    for one in results:
        kept.append(one)
    return results, kept


def test_a_report_of_kept_results_is_the_report_of_a_list(both):
    documents = []
    for results in both:
        found = evaluate_report.document(results, totals_of(results), source='x', backend='cpu',
                                         settings={}, method=Method())
        file = io.StringIO()
        json.dump({key: value for key, value in found.items() if key not in ('date', 'machine')},
                  file, allow_nan=False)
        documents.append(file.getvalue())
    assert documents[0] == documents[1]
    assert len(json.loads(documents[0])['pairs']) == len(both[1]) == FRAMES
    assert not list(Results())


def test_totals_are_those_of_all_frames_and_of_each_input(both):
    results, kept = both
    totals = totals_of(kept)
    assert (totals.frames, list(totals.matchers), totals.process_bytes) == (
        FRAMES, ['own', 'bm'], 1000 + FRAMES - 1)
    assert {name: part['own'].frames for name, part in totals.inputs.items()} == {
        'a': FRAMES // 2, 'b': FRAMES // 2}
    for label, part in (('a', totals.inputs['a']), ('', totals.matchers)):
        frames = [one.matchers['own'] for one in results if one.input == label or not label]
        wrong = [one.frame.whole.published.bad_all(3.0) for one in frames]
        assert part['own'].mean['score']['bad_3_all'] == pytest.approx(np.mean(wrong), rel=1e-14)
        assert part['own'].pooled.whole.published.known == 24 * 32 * len(frames)
        assert part['own'].searched == {16: len(frames)}
        assert list(part['bm'].times_ms) == [3.0] * len(frames)
        assert part['own'].latency_ms['total']['p50'] == np.median(
            [ms for one in frames for ms in one.times_ms])
        assert list(part['own'].curves.wrong) == wrong


def test_a_frame_takes_less_than_a_hundred_bytes_of_memory():
    """A result of a list takes over 20 kilobytes."""
    kept, one = Results(), frame(0)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(200):
            kept.append(one)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 200 * 100
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_report_is_written_without_all_of_its_frames_in_memory(tmp_path):
    """Twice as many frames take no more memory, but for their times."""
    def peak(count: int) -> int:
        kept = Results()
        for number in range(count):
            kept.append(frame(number))
        gc.collect()
        tracemalloc.start()
        try:
            with open(tmp_path / 'report.json', 'w', encoding='utf-8') as file:
                json.dump(evaluate_report.document(
                    kept, totals_of(kept), source='x', backend='cpu', settings={},
                    method=Method()), file, indent=2)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)
    assert peak(200) - peak(100) < 100 * 1_000
