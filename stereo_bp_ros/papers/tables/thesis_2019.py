"""How tables 5.2 and 5.3 of the thesis on tiled belief propagation are measured.

A mismatch is a pixel of known truth whose label is another than disparity.png / 16 has. Neither
the costs nor the mask of the thesis are known, so both cost settings of the other papers are run.
"""

from __future__ import annotations

from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.papers.tables.bench import Bench, Settings, milliseconds
from stereo_bp_ros.papers.tables.images import Missing
from stereo_bp_ros.papers.tables.results import Cell, Measurement, Row

LABELS = 16
TILED: Settings = {'stereo_algorithm': 'tiled_bp', 'tile_size': 13, 'outer_iterations': 1,
                   'inner_iterations': 1}
NOTE = ('The thesis names neither its costs nor which pixels it counts: mismatches are those of '
        'all pixels with known truth.')


def table_5_2(bench: Bench) -> Measurement:
    return _tiled(bench, 'tsukuba')


def table_5_3(bench: Bench) -> Measurement:
    return _tiled(bench, 'red_barrel')


def _tiled(bench: Bench, image: str) -> Measurement:
    variants: dict[str, Settings] = {}
    for costs in ('five_sets', 'tsukuba_2010'):
        base = load_preset(costs)
        variants[f'tiled_bp, costs of {costs}'] = {**base, **TILED}
        variants[f'bp, {costs}'] = base
    variants['tiled_bp, preset tsukuba_2019'] = load_preset('tsukuba_2019')
    times = bench.compare(image, LABELS, variants)
    rows = [Row(name, bench.device, (
        milliseconds(times[name]), _mismatches(bench, image, settings)))
        for name, settings in variants.items()]
    return Measurement(tuple(rows), notes=(NOTE,))


def _mismatches(bench: Bench, image: str, settings: Settings) -> Cell:
    score = bench.score(image, LABELS, settings)
    if isinstance(score, Missing):
        return Cell(missing=score.reason)
    # A pixel without an estimate has no right label.
    return Cell((score.bad[0] + score.known - score.estimated,))
