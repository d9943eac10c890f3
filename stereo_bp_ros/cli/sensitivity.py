"""How many pixels errors of calibration, weather and light make wrong, on the rendered street.

Every quantity is changed alone, from its harmless value on. A cell has the per cent of wrong
pixels once holes are filled (bad-3), and in brackets those that have a disparity before. They are
of the pixels that both cameras see, without the sky. The last table has the first value at which
bad-3 is at least twice that of the harmless one.

  stereo_bp sensitivity --preset road --against road_fast,sgbm
  stereo_bp sensitivity pitch yaw=0,0.1,0.2 --params-file car.yaml --output sensitivity/
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from stereo_bp_ros.cli import against, evaluate_origin, progress, render
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.machine import origin
from stereo_bp_ros.cli.outputs import check_folder
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.settings import did_you_mean
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation import plots
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Evaluation
from stereo_bp_ros.evaluation.sensitivity import QUANTITIES, Quantity, Row, Street, curve, doubled

HELP = 'curves of wrong pixels over errors of calibration, weather and light'
NEEDS = ()

#: Fewer values make no curve, and no doubling.
MIN_VALUES = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    usual = Street()
    parser.add_argument('quantities', nargs='*', metavar='quantity',
                        help='what is changed, by its name or as NAME=VALUE,VALUE,... with the '
                             'harmless value first (default: all): ' + ', '.join(QUANTITIES))
    parser.add_argument('--size', default=f'{usual.width}x{usual.height}', metavar='WxH',
                        help=f'image size in pixels (default {usual.width}x{usual.height})')
    parser.add_argument('--disparities', type=shared.whole(4, 512), default=usual.disparities,
                        metavar='D', help='disparities to search: the baseline is chosen for them '
                                          f'(default {usual.disparities})')
    parser.add_argument('--frames', type=shared.whole(1, 1000), default=usual.frames, metavar='N',
                        help=f'how many pairs of every street (default {usual.frames})')
    against.add_argument(parser)
    parser.add_argument('--output', type=pathlib.Path, metavar='DIR',
                        help='write sensitivity.json, and the curves as sensitivity.svg, which '
                             'needs matplotlib')
    shared.add_matcher_options(parser)
    shared.add_params_file_option(parser)
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    street = Street(*render.size_of(options.size), options.disparities, options.frames)
    quantities = _quantities(options.quantities)
    for quantity in quantities.values():        # wrong values are told before anything is matched
        for value in quantity.values:
            street.drive(quantity, value)
    config = MatcherConfig.from_mapping(shared.chosen_settings(options, otherwise=AUTO))
    own = against.own_name(options, config)
    names, others = against.chosen(options, own, config)
    if options.output:
        check_folder(options.output, ('sensitivity.json', 'sensitivity.svg'),
                     [options.params_file])
        options.output.mkdir(parents=True, exist_ok=True)
    draws = bool(options.output) and shared.can_draw('sensitivity.svg')
    shared.say_preset(options)
    configs = {own: config, **others}
    method = Method(repeat=1, own_range=shared.names_range(options),
                    alone=against.asks_for_rows(options, own))
    curves: dict[str, tuple[Quantity, list[Row]]] = {}
    with (Evaluation(configs, names, method) as evaluation,
          progress.Bar('sensitivity', 'values') as bar):
        task = bar.add_task('', total=sum(len(one.values) for one in quantities.values()))
        for name, quantity in quantities.items():
            curves[name] = quantity, []
            bar.update(task, description=f'{name}, {quantity.unit}')
            for row in curve(quantity, street, evaluation):
                curves[name][1].append(row)
                bar.advance(task)
            if not options.json:
                _print(name, *curves[name])
        devices = evaluation.devices
    report = {
        **origin(), 'devices': {name: [one] for name, one in devices.items()},
        'settings': {name: one.to_mapping() for name, one in configs.items()},
        'street': dataclasses.asdict(street),
        'quantities': {name: {'unit': quantity.unit, 'rows': [row.to_dict() for row in rows],
                              'doubled': {one: doubled(rows, one) for one in devices}}
                       for name, (quantity, rows) in curves.items()}}
    if options.output:
        shared.write_json(options.output / 'sensitivity.json', report)
        if draws:
            plots.save(plots.draw_sensitivity(curves), options.output / 'sensitivity.svg')
    if options.json:
        shared.print_json(report)
    else:
        _print_doubled(report)
    return 0


def _quantities(texts: Sequence[str]) -> dict[str, Quantity]:
    """:raises ValueError: no such quantity, one that is there twice, or values that are none."""
    found = {} if texts else dict(QUANTITIES)
    for text in texts:
        name, equals, words = text.partition('=')
        if name not in QUANTITIES:
            raise ValueError(f'there is no quantity {shown(name)}, but ' + ', '.join(QUANTITIES)
                             + did_you_mean(name, QUANTITIES))
        if name in found:
            raise ValueError(f'the quantity {name} is there twice')
        found[name] = QUANTITIES[name]
        if equals:
            try:
                values = tuple(map(float, words.split(',')))
            except ValueError:
                values = ()
            if len(values) < MIN_VALUES:
                raise ValueError(f'{shown(text)} is not written {name}=VALUE,VALUE,... with '
                                 f'{MIN_VALUES} numbers or more')
            found[name] = dataclasses.replace(found[name], values=values)
    return found


def _print(name: str, quantity: Quantity, rows: Sequence[Row]) -> None:
    columns = [quantity.unit, *rows[0].matchers]
    shared.print_table(name, columns, [
        [f'{row.value:g}', *(f'{one["bad_3_filled"]:.2f} ({one["density"]:.1f})'
                             for one in row.matchers.values())] for row in rows])


def _print_doubled(report: Mapping[str, Any]) -> None:
    columns = ['quantity', *report['devices']]
    rows = [[f'{name}, {one["unit"]}', *('-' if value is None else f'{value:g}'
                                         for value in one['doubled'].values())]
            for name, one in report['quantities'].items()]
    shared.print_table('bad-3 is doubled at', columns, rows)
    shared.say(*evaluate_origin.lines(report))
