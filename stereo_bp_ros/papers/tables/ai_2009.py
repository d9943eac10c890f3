"""How the figures of the AI 2009 paper are measured: presets ``tsukuba_2009``, ``road_2009``.

Its road sequences are not public any more: a drawn street of the same size stands for them, once
with equal exposure of both cameras and once without.
"""

from __future__ import annotations

from collections.abc import Mapping

from stereo_bp_ros import geometry
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.papers.tables import plots
from stereo_bp_ros.papers.tables.bench import (
    Bench,
    Settings,
    Timed,
    megabytes,
    milliseconds,
    speedup,
)
from stereo_bp_ros.papers.tables.images import ROAD, ROAD_DISPARITY, ROAD_OTHER_EXPOSURE, Missing
from stereo_bp_ros.papers.tables.published import ai_2009 as published
from stereo_bp_ros.papers.tables.results import Cell, Measurement, Row

#: What is measured to image, number of labels and preset.
FRAMES: Mapping[str, tuple[str, int, str]] = {
    'Tsukuba': ('tsukuba', 16, 'tsukuba_2009'),
    'road': (ROAD, ROAD_DISPARITY + 1, 'road_2009')}

PREPROCESSING = {'original': 'none', 'Sobel': 'sobel', 'residual': 'residual'}
ROAD_NOTE = ('The road is a drawn street, 640 x 480 with disparities up to 32: the sequences of '
             'the paper are not public any more.')


def times(bench: Bench) -> Measurement:
    rows = []
    for name in FRAMES:
        found = _frame(bench, name)
        rows.append(Row(name, bench.machine, (
            milliseconds(found['CPU'], '{} ms'), milliseconds(found['CUDA'], '{} ms'),
            speedup(found['CPU'], found['CUDA']), milliseconds(found['CPU, int16'], '{} ms'),
            milliseconds(found['CUDA, int16'], '{} ms'))))
    return Measurement(tuple(rows), ('CPU, int16', 'CUDA, int16'), (
        ROAD_NOTE, 'CPU times are those of all threads; the road is matched on Sobel images.'))


def preprocessing(bench: Bench) -> Measurement:
    rows = []
    for name, method in PREPROCESSING.items():
        settings = {**load_preset('road_2009'), 'preprocessing': method}
        cells: list[Cell] = []
        for image in (ROAD, ROAD_OTHER_EXPOSURE):
            score = bench.score(image, ROAD_DISPARITY + 1, settings)
            cells += (_bad(score, threshold) for threshold in (1.0, 3.0))
        timed = bench.compare(ROAD, ROAD_DISPARITY + 1, {name: settings})[name]
        rows.append(Row(name, bench.device, (*cells, milliseconds(timed, '{} ms'))))
    columns = (*published.PREPROCESSING.columns[1:], 'time')
    return Measurement(tuple(rows), ('time',), (
        ROAD_NOTE, 'Per cent of all pixels, a pixel without an estimate counting as bad. Other '
        'exposure: the right camera sees 0.8 of the light and 10 grey levels more.'),
        (plots.of_columns(published.PREPROCESSING, rows, ('', *columns), columns[:-1],
                          'bad pixels, per cent', is_log=False),))


def memory(bench: Bench) -> Measurement:
    rows = []
    for name, (image, labels, _) in FRAMES.items():
        found = _frame(bench, name)
        pair = bench.images.load(image)
        bound = Cell(missing=pair.reason) if isinstance(pair, Missing) else Cell((
            4 * geometry.paper_memory_bound(pair.left.shape[1], pair.left.shape[0], labels)
            / 1e6,))
        rows.append(Row(name, bench.machine, (bound, *(
            megabytes(found[key]) for key in ('CUDA', 'CUDA, int16', 'CPU', 'CPU, int16')))))
    return Measurement(tuple(rows), tuple(
        f'{backend} engine, {kind}' for backend in ('CUDA', 'CPU')
        for kind in ('float32', 'int16')))


def _frame(bench: Bench, name: str) -> dict[str, Timed]:
    image, labels, preset = FRAMES[name]
    base = load_preset(preset)
    variants: dict[str, Settings] = {
        'CPU': {**base, 'backend': 'cpu'}, 'CUDA': {**base, 'backend': 'cuda'},
        'CPU, int16': {**base, 'backend': 'cpu', 'message_type': 'int16'},
        'CUDA, int16': {**base, 'backend': 'cuda', 'message_type': 'int16'}}
    return bench.compare(image, labels, variants)


def _bad(score: metrics.Score | Missing, threshold: float) -> Cell:
    if isinstance(score, Missing):
        return Cell(missing=score.reason)
    return Cell((score.bad_known(threshold),))
