"""How the figures of the AI 2009 paper are measured: presets ``tsukuba_2009``, ``road_2009``.

Its road sequences are not public any more: a drawn street of the same size stands for them, once
with equal exposure of both cameras and once without.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.papers.bench import Bench, Timed, milliseconds, speedup
from benchmarks.papers.images import ROAD, ROAD_DISPARITY, ROAD_OTHER_EXPOSURE
from benchmarks.papers.table import Cell, Missing, Row, cell
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.papers.programs import memory_bound

#: What is measured to image, number of labels and preset.
FRAMES: Mapping[str, tuple[str, int, str]] = {
    'Tsukuba': ('tsukuba', 16, 'tsukuba_2009'),
    'road': (ROAD, ROAD_DISPARITY + 1, 'road_2009')}

PREPROCESSING = {'original': 'none', 'Sobel': 'sobel', 'residual': 'residual'}
ROAD_NOTE = ('The road is a drawn street, 640 x 480 with disparities up to 32: the sequences of '
             'the paper are not public any more.')


def times(bench: Bench) -> tuple[list[Row], list[str]]:
    rows = []
    for name in FRAMES:
        timed = _compare(bench, name)
        rows.append(Row(name, (
            milliseconds(timed['CPU'], '{} ms'), milliseconds(timed['CUDA'], '{} ms'),
            speedup(timed['CPU'], timed['CUDA']), milliseconds(timed['CPU, int16'], '{} ms'),
            milliseconds(timed['CUDA, int16'], '{} ms')), bench.machine))
    return rows, [
        ROAD_NOTE, 'CPU times are those of all threads; the road is matched on Sobel images.']


def preprocessing(bench: Bench) -> tuple[list[Row], list[str]]:
    rows = []
    for name, method in PREPROCESSING.items():
        settings = {**load_preset('road_2009'), 'preprocessing': method}
        cells: list[Cell] = []
        for image in (ROAD, ROAD_OTHER_EXPOSURE):
            score = bench.score(image, ROAD_DISPARITY + 1, settings)
            cells += (cell(lambda score, most=most: score.bad_all(most), score)
                      for most in (1.0, 3.0))
        timed = bench.compare(ROAD, ROAD_DISPARITY + 1, {name: settings})[name]
        rows.append(Row(name, (*cells, milliseconds(timed, '{} ms')), bench.device))
    return rows, [
        ROAD_NOTE, 'Per cent of all pixels, a pixel without an estimate counting as bad. Other '
        'exposure: the right camera sees 0.8 of the light and 10 grey levels more.']


def memory(bench: Bench) -> tuple[list[Row], list[str]]:
    rows = []
    for name, (image, labels, _) in FRAMES.items():
        timed = _compare(bench, name)
        try:
            height, width = bench.images.load(image).left.shape
            bound = Cell((4 * memory_bound(width, height, labels) / 1e6,))
        except Missing as missing:
            bound = Cell(missing=str(missing))
        rows.append(Row(name, (bound, *(
            cell(lambda one: one.memory / 1e6, timed[key])
            for key in ('CUDA', 'CUDA, int16', 'CPU', 'CPU, int16'))), bench.machine))
    return rows, []


def _compare(bench: Bench, name: str) -> dict[str, Timed]:
    image, labels, preset = FRAMES[name]
    base = load_preset(preset)
    return bench.compare(image, labels, {
        f'{backend.upper()}{end}': {**base, 'backend': backend, **kind}
        for end, kind in (('', {}), (', int16', {'message_type': 'int16'}))
        for backend in ('cpu', 'cuda')})


TABLES = {
    'times': (times, ('CPU, int16', 'CUDA, int16')),
    'preprocessing': (preprocessing, ('time',)),
    'memory': (memory, ('CUDA engine, float32', 'CUDA engine, int16', 'CPU engine, float32',
                        'CPU engine, int16'))}
