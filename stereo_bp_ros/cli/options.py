"""Options that several verbs share, and how they print."""

from __future__ import annotations

import argparse
import codecs
import importlib
import importlib.util
import json
import logging
import math
import pathlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from stereo_bp_ros.config.files import AUTO, NONE, load_preset, preset_names, preset_purpose
from stereo_bp_ros.config.mappings import parse_assignments
from stereo_bp_ros.config.matcher import default_preset
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.parameter_blocks import OF_ANY_NODE, load_parameter_file
from stereo_bp_ros.config.settings import Value
from stereo_bp_ros.config.stereo_image_proc import HINTS, hint
from stereo_bp_ros.engines import choice
from stereo_bp_ros.errors import BackendUnavailable, ConfigError, shown, visible
from stereo_bp_ros.evaluation import metrics
from stereo_bp_ros.system import atomic_files, transport

_log = logging.getLogger(__name__)

#: Characters of a line in a pipe or a log, and of a column that folds.
PIPE_WIDTH, FOLDED = 100, 24

#: Behind the title of a table's second part.
CONTINUED = ', continued'

#: Parameters that a node has for others than this package.
ROS_PARAMETERS = ('preset', *OF_ANY_NODE)

#: What some verbs need beyond the package's own requirements, and how it is installed.
REMEDIES = {
    'rosbags': "pip install rosbags, or the extra 'evaluation' of this package",
    'mcap': "pip install mcap, or the extra 'evaluation' of this package",
    'matplotlib': "pip install matplotlib, or the extra 'evaluation' of this package",
    'scipy': "pip install scipy, or the extra 'evaluation' of this package",
    'jinja2': "pip install jinja2, or the extra 'evaluation' of this package",
    'rerun': "pip install rerun-sdk, or the extra 'view' of this package (Python 3.11 and NumPy 2 "
             'or later; an environment of its own will do)',
    'rclpy': "source the setup.bash of ROS 2, or install the extra 'ros' of this package",
}


def missing(modules: Sequence[str]) -> str:
    """What of these modules is not installed and how it is, in words; '' = nothing."""
    return '; '.join(f'needs {name}: {REMEDIES[name]}' for name in modules
                     if importlib.util.find_spec(name) is None)


def can_draw(file: str, modules: Sequence[str] = ('matplotlib',)) -> bool:
    """Whether what draws a file is there; warns that the file is left out where it is not."""
    lacking = missing(modules)
    if lacking:
        _log.warning('%s is not written: that %s', file, lacking)
    return not lacking


def require(*modules: str) -> None:
    """Import modules that not everybody has, rclpy once ROS finds what it needs.

    :raises BackendUnavailable: one is not installed or does not work; names the remedy.
    :raises StereoError: ROS would be killed, as ``transport.prepare``.
    """
    if 'rclpy' in modules and importlib.util.find_spec('rclpy'):
        problem = transport.prepare()
        if problem:
            _log.warning(problem)
        transport.keep_freed_memory()
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise BackendUnavailable(f'this needs {name}: {error}', REMEDIES[name]) from error


def whole(low: int, high: int = 10**9) -> Callable[[str], int]:
    """Type of an option: a whole number within limits."""
    def read(text: str) -> int:
        if not re.fullmatch(r'[+-]?[0-9]{1,18}', text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f'{shown(text)} is not a whole number from {low} to {high}')
        return int(text)
    return read


def real(low: float, high: float) -> Callable[[str], float]:
    """Type of an option: a finite number within limits."""
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f'{shown(text)} is not a number from {low:g} to {high:g}')
        return value
    return read


def parse_size(text: str, form: str, minima: Sequence[int]) -> tuple[int, ...]:
    """The whole numbers of ``text``, written as ``form``, e.g. 1280x720.

    :param minima: of each number.
    :raises ValueError: it is not of this form, or a number is too small.
    """
    parts = text.lower().split('x')
    if (len(parts) != len(minima) or not all(re.fullmatch('[0-9]{1,9}', part) for part in parts)
            or any(int(part) < low for part, low in zip(parts, minima, strict=True))):
        raise ValueError(f'--size is {shown(text)}, but must be {form}, at least '
                         + 'x'.join(map(str, minima)))
    return tuple(int(part) for part in parts)


def add_matcher_options(
        parser: argparse.ArgumentParser,
        otherwise: str = 'auto, or none where a setting of matching is given') -> None:
    """--preset, --set and --backend; ``otherwise``: the preset where none is named."""
    parser.add_argument('--preset', metavar='NAME',
                        help='set of settings (--help lists them); none: their own defaults; '
                             f'auto: the best for roads on this machine (default: {otherwise})')
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE', dest='settings',
                        help='change one setting; may be given several times '
                             '(`stereo_bp info --settings` lists them)')
    parser.add_argument('--backend', choices=('auto', 'cuda', 'cpu'),
                        help='what computes (default: auto)')
    parser.epilog = _presets()


def _presets() -> str:
    """For --help: what each preset is for, those of papers last."""
    purposes = {name: preset_purpose(name) for name in preset_names()}
    return '\n\n'.join(title + ''.join(
        f'\n  {name:12} {text}' for name, text in purposes.items()
        if text.startswith('Paper') == is_paper) for title, is_paper in (
            ('Presets:', False), ('Presets that repeat papers:', True)))


def add_params_file_option(parser: argparse.ArgumentParser) -> None:
    """--params-file, of verbs that match in their own process."""
    parser.add_argument('--params-file', type=pathlib.Path, metavar='FILE',
                        help='settings of a ROS parameter file, over those of --preset; '
                             'parameters that concern the node alone are left out')


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument('--json', action='store_true',
                        help='print every figure as JSON instead of a table')


def sync_parameters(options: argparse.Namespace) -> dict[str, Value]:
    """The parameters of a node that --approximate-sync stands for."""
    seconds = options.approximate_sync
    if seconds is None:
        return {}
    return {'approximate_sync': seconds > 0, **(
        {'approximate_sync_tolerance_seconds': seconds} if seconds else {})}


def chosen_settings(options: argparse.Namespace, settings: Mapping[str, Value] | None = None, *,
                    otherwise: str = NONE,
                    size: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> dict[str, Value]:
    """Settings that the command line names: the preset's, those of a file, --set, --backend.

    ``options.preset`` becomes the name of the preset whose settings these are, and
    ``options.why_preset`` says which one ``auto`` is; '' = it was not ``auto``.

    :param settings: of a scenario, which win over the preset's.
    :param otherwise: the preset where nothing says how is matched.
    :param size: asked for ``auto``: width and height of the images, pixels; 0 = not known.
    :raises ConfigError: an unknown name or a refused value.
    """
    values = dict(settings or {})
    path = getattr(options, 'params_file', None)
    if path and options.verb != 'replay':       # whose node reads it
        values.update(_of_matcher(load_parameter_file(path), options))
    values.update(parse_assignments(options.settings))
    if options.backend:
        values['backend'] = options.backend
    for name in values:
        if name in NodeConfig.settings():
            way = ('; use --approximate-sync SECONDS' if name.startswith('approximate_sync')
                   and hasattr(options, 'approximate_sync') else
                   '; put it into a file for --params-file' if options.verb == 'replay' else '')
            raise ConfigError(name, values[name],
                              f'it is a setting of the node, not of a matcher{way}')
    if not options.preset and not path and default_preset(values) == AUTO:
        options.preset = otherwise
    return {**_load_preset(options, values, size), **values}


def _load_preset(options: argparse.Namespace, values: Mapping[str, Value],
                 size: Callable[[], tuple[int, int]]) -> dict[str, Value]:
    """The settings of ``options.preset``."""
    options.why_preset = getattr(options, 'why_preset', '')
    if options.preset == AUTO:
        try:
            options.preset, options.why_preset = choice.best_preset(values, *size())
        except BackendUnavailable:      # as whoever wants to match is told
            options.preset = None
    elif options.preset == NONE:
        options.preset = None
    return load_preset(options.preset or NONE)


def say_preset(options: argparse.Namespace) -> None:
    """Say on standard error which preset ``auto`` is."""
    if options.why_preset:
        say(f'stereo_bp {options.verb}: {options.why_preset}', file=sys.stderr)


def _of_matcher(parameters: Mapping[str, Value], options: argparse.Namespace
                ) -> dict[str, Value]:
    """A node's parameters without those of the node alone; its preset wins over --preset."""
    if parameters.get('preset'):
        options.preset = str(parameters['preset'])
    others = (*NodeConfig.settings(), *ROS_PARAMETERS, *HINTS)
    for name in HINTS:
        if name in parameters:          # the node leaves it out, too
            _log.warning('%s is left out; %s', name, hint(name))
    return {name: value for name, value in parameters.items()
            if name not in others and not name.startswith('qos_overrides.')}


def names_range(options: argparse.Namespace) -> bool:
    """Whether --set names disparity_range: a preset's is for no set in particular."""
    return any(text.startswith('disparity_range=') for text in options.settings)


def say(*lines: str, file: TextIO | None = None) -> None:
    """Lines on standard output, or in another stream; names in them are ``visible``."""
    for line in lines:
        print(visible(line), file=file)


def print_json(report: Mapping[str, Any]) -> None:
    """One JSON document on standard output."""
    json.dump(report, sys.stdout, indent=2, allow_nan=False)
    print()


def write_json(path: pathlib.Path, report: Mapping[str, Any]) -> None:
    """One JSON document into a file."""
    with atomic_files.opened(path) as file:     # piece by piece: it may be large
        text = codecs.getwriter('utf-8')(file)
        json.dump(report, text, indent=2, allow_nan=False)
        text.write('\n')


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *,
                is_text: bool = False, ranks: Sequence[int] = (), keys: int = 1) -> None:
    """A table on standard output, one below the other where a line has no room for all columns.

    Names of files and settings are ``visible``, and brackets in them are no markup.

    :param is_text: columns are text, and fold where a line is too long; else only wide ones do.
    :param ranks: of each column, as for ``fitting``; () = all are printed.
    :param keys: first columns, which every part of the table has.
    """
    cells = _widths(columns, rows)
    for part in [range(len(columns))] if is_text else _parts(
            fitting(columns, rows, ranks) if ranks else range(len(columns)), cells, keys):
        table = Table(title=visible(title), title_justify='left')
        for index in part:
            table.add_column(visible(columns[index], kept='\n'),
                             justify='right' if index and not is_text else 'left',
                             no_wrap=not is_text and index > 0 and cells[index] < FOLDED,
                             overflow='fold')
        for row in rows:
            table.add_row(*(visible(row[index]) for index in part))
        _console().print(table)
        title = title.removesuffix(CONTINUED) + CONTINUED


def _console() -> Console:
    # A pipe or a log has no width of its own.
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, markup=False, emoji=False)


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """What columns need; wide ones fold."""
    return [min(FOLDED, max(cell_len(line) for cell in (column, *(row[i] for row in rows))
                            for line in cell.split('\n')))
            for i, column in enumerate(columns)]


def _length(cells: Sequence[int], chosen: Sequence[int]) -> int:
    """Of a line with these columns and the bars between them."""
    return 1 + sum(3 + cells[index] for index in chosen)


def _parts(chosen: Sequence[int], cells: Sequence[int], keys: int) -> list[list[int]]:
    """Indices of columns that a line has room for, those of the keys in every part."""
    width, parts = _console().width, [[*chosen[:keys]]]
    for index in chosen[keys:]:
        if len(parts[-1]) > keys and _length(cells, [*parts[-1], index]) > width:
            parts.append([*chosen[:keys]])
        parts[-1].append(index)
    return parts


def fitting(columns: Sequence[str], rows: Sequence[Sequence[str]], ranks: Sequence[int]
            ) -> list[int]:
    """Indices of the columns that a table in this terminal has room for, in their order.

    :param ranks: of each column: 0 = always there, others in rising order while they fit.
    """
    cells, width = _widths(columns, rows), _console().width
    chosen = [index for index, rank in enumerate(ranks) if rank == 0]
    for index in sorted(set(range(len(ranks))) - set(chosen), key=lambda i: ranks[i]):
        if _length(cells, [*chosen, index]) <= width:
            chosen.append(index)
    return sorted(chosen)


def score_rows(score: Mapping[str, float | int | None]) -> list[tuple[str, str]]:
    """Rows of a table: the figures of ``metrics.Score.as_dict`` in words, with their units."""
    known = metrics.meanings()
    rows = []
    for key, value in score.items():
        words, unit = known[key]
        text = f'{value:.2f} {unit}' if isinstance(value, float) else str(value)
        rows.append((words, '-' if value is None else text))
    return rows


def score_keys() -> str:
    """For --help: the figures of "score" in the output of --json."""
    return 'Figures of "score" with --json:\n' + '\n'.join(
        f'  {key:17} {words}' + (f', {unit}' if unit else '')
        for key, (words, unit) in metrics.meanings().items())
