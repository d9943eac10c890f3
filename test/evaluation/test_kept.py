"""Results of a long evaluation stay on the disk, and its figures are those of a list."""

from __future__ import annotations

import gc
import io
import json
import tracemalloc

import numpy as np
import pytest

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli import evaluate_report, evaluate_tables
from stereo_bp_ros.evaluation import regions
from stereo_bp_ros.evaluation.conditions import judge, parse_condition
from stereo_bp_ros.evaluation.frame_scores import SUMMED_AT_ONCE, mean_of_frames, score_frame
from stereo_bp_ros.evaluation.kept import Results, Rows
from stereo_bp_ros.evaluation.results import Figures, Result, totals_of

FRAMES = 200
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


def document(results) -> str:
    totals = totals_of(results)
    found = evaluate_report.summary_of(results, totals, source='x', backend='cpu', settings={},
                                       against={'bm': totals.matchers['bm'].to_dict()})
    file = io.StringIO()
    json.dump({key: value for key, value in found.items() if key not in ('date', 'machine')},
              file, allow_nan=False)
    return file.getvalue()


def test_kept_results_are_those_that_were_appended(both):
    results, kept = both
    assert len(kept) == FRAMES
    assert [one.to_dict() for one in kept] == [one.to_dict() for one in results]
    assert kept[-1].name == results[-1].name
    assert [one.name for one in kept[3:7]] == [one.name for one in results[3:7]]
    with pytest.raises(IndexError):
        kept[FRAMES]
    assert not list(Results())


def test_a_report_of_kept_results_is_the_report_of_a_list(both):
    results, kept = both
    assert document(kept) == document(results)
    assert len(json.loads(document(kept))['pairs']) == FRAMES
    conditions = [parse_condition(text) for text in (
        'bad3 <= 5 %', 'density >= 1 x bm', 'p99 <= 3 ms', 'filled bad3 <= 9 % in every frame',
        'engine memory <= 3 MiB')]
    assert judge(conditions, kept) == judge(conditions, results)


def test_totals_are_those_of_all_frames_and_of_each_input(both):
    results, kept = both
    totals = totals_of(kept)
    assert (totals.frames, list(totals.matchers), totals.process_bytes) == (
        FRAMES, ['own', 'bm'], 1000 + FRAMES - 1)
    assert {name: part['own'].frames for name, part in totals.inputs.items()} == {
        'a': FRAMES // 2, 'b': FRAMES // 2}
    for label, part in (('a', totals.inputs['a']), ('', totals.matchers)):
        frames = [one.matchers['own'] for one in results if one.input == label or not label]
        wrong = [one.frame.whole.published.bad_known(3.0) for one in frames]
        assert part['own'].mean['score']['bad_3_known'] == pytest.approx(np.mean(wrong), rel=1e-14)
        assert part['own'].pooled.whole.published.known == 24 * 32 * len(frames)
        assert part['own'].searched == {16: len(frames)}
        assert list(part['bm'].times_ms) == [3.0] * len(frames)
        assert part['own'].latency_ms['total']['p50'] == np.median(
            [ms for one in frames for ms in one.times_ms])
        # Inputs follow each other.
        assert sorted(part['own'].curves.wrong) == sorted(wrong)
    assert list(totals.matchers['own'].curves.median_ms) == [
        one.matchers['own'].median_ms for label in 'ab' for one in results if one.input == label]


def test_kept_results_are_read_once_for_totals_and_once_for_the_report(both, monkeypatch):
    _, kept = both
    read: list[int] = []
    get = Results.__getitem__
    monkeypatch.setattr(Results, '__getitem__',
                        lambda self, place: (read.append(place), get(self, place))[1])
    totals = totals_of(kept)
    assert read == list(range(FRAMES + 1))      # iterating ends with an IndexError
    read.clear()
    evaluate_tables.frame_table(kept, totals)
    evaluate_report.plots_of(totals.matchers)
    evaluate_report.tiles(totals)
    summary = evaluate_report.summary_of(kept, totals, source='x', backend='cpu', settings={})
    assert not read
    json.dumps(summary)
    assert read == list(range(FRAMES + 1))


def test_the_mean_of_many_frames_is_that_of_all_at_once(both):
    results, _ = both
    dicts = [one.matchers['own'].frame.as_dict() for one in results]
    assert FRAMES > 2 * SUMMED_AT_ONCE
    mean = mean_of_frames(dicts)
    values = [one['score']['mae'] for one in dicts]
    assert mean['score']['mae'] == pytest.approx(np.mean(values), rel=1e-14)
    # A figure that only a late frame has, and one that a late frame lacks.
    late = [{'a': {'b': 1.0}}] * SUMMED_AT_ONCE + [{'a': {'b': None}, 'c': [2.0, 4.0]},
                                                   {'c': [4.0, 4.0]}]
    assert mean_of_frames(late) == {'a': {'b': 1.0}, 'c': [3.0, 4.0]}


def test_a_frame_takes_less_than_a_hundred_bytes_of_memory():
    """A result of a list takes over 20 kilobytes."""
    results, kept = [], Results()
    one = frame(0)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(500):
            kept.append(one)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 500 * 100
        before = tracemalloc.get_traced_memory()[0]
        results = [frame(number) for number in range(20)]
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before > 20 * 20_000
    finally:
        tracemalloc.stop()
    assert len(results) == 20


@pytest.mark.slow
def test_a_report_is_written_without_all_of_its_frames_in_memory(both, tmp_path):
    """Twice as many frames take no more memory, but for their times."""
    _, kept = both

    def peak(count: int) -> int:
        part = Results()
        for _, one in zip(range(count), kept, strict=False):
            part.append(one)
        gc.collect()
        tracemalloc.start()
        try:
            with open(tmp_path / 'report.json', 'w', encoding='utf-8') as file:
                totals = totals_of(part)
                json.dump(evaluate_report.summary_of(
                    part, totals, source='x', backend='cpu', settings={}), file, indent=2)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(2)
    assert peak(FRAMES) - peak(FRAMES // 2) < FRAMES // 2 * 1_000


def test_rows_are_made_when_they_are_written():
    made = []
    rows = Rows(lambda: (made.append(number) or number for number in range(3)), 3)
    assert not made
    file = io.StringIO()
    json.dump({'rows': rows, 'none': Rows(lambda: iter(()), 0)}, file, indent=1)
    assert json.loads(file.getvalue()) == {'rows': [0, 1, 2], 'none': []}
