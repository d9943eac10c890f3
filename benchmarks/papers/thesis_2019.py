"""How tables 5.2 and 5.3 of the thesis on tiled belief propagation are measured.

A mismatch is a pixel of known truth whose label is another than disparity.png / 16 has. Neither
the costs nor the mask of the thesis are known, so both cost settings of the other papers are run.
"""

from __future__ import annotations

import functools

from benchmarks.papers.bench import Bench, Settings, milliseconds
from benchmarks.papers.table import Row, cell
from stereo_bp_ros.config.files import load_preset

#: Number of a table to its image.
IMAGES = {'table 5.2': 'tsukuba', 'table 5.3': 'red_barrel'}
LABELS = 16
TILED: Settings = {'stereo_algorithm': 'tiled_bp', 'tile_size': 13, 'outer_iterations': 1,
                   'inner_iterations': 1}
NOTE = ('The thesis names neither its costs nor which pixels it counts: mismatches are those of '
        'all pixels with known truth.')


def measure(image: str, bench: Bench) -> tuple[list[Row], list[str]]:
    variants: dict[str, Settings] = {}
    for costs in ('five_sets', 'tsukuba_2010'):
        base = load_preset(costs)
        variants[f'tiled_bp, costs of {costs}'] = {**base, **TILED}
        variants[f'bp, {costs}'] = base
    variants['tiled_bp, preset tsukuba_2019'] = load_preset('tsukuba_2019')
    times = bench.compare(image, LABELS, variants)
    return [Row(name, (
        milliseconds(times[name]),
        # A pixel without an estimate has no right label.
        cell(lambda score: score.bad[0] + score.known - score.estimated,
             bench.score(image, LABELS, settings))), bench.device)
        for name, settings in variants.items()], [NOTE]


TABLES = {number: (functools.partial(measure, image),) for number, image in IMAGES.items()}
