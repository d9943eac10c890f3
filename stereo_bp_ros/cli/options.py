"""Options that several verbs share, and how they print."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from stereo_bp_ros.config import MatcherConfig, Value, parse_assignments
from stereo_bp_ros.errors import ConfigError
from stereo_bp_ros.parameter_files import load_preset, preset_names


def add_matcher_options(parser: argparse.ArgumentParser) -> None:
    """--preset, --set and --backend."""
    parser.add_argument('--preset', metavar='NAME',
                        help='shipped set of settings: ' + ', '.join(preset_names()))
    parser.add_argument('--set', action='append', default=[], metavar='KEY=VALUE', dest='settings',
                        help='change one setting; may be given several times '
                             '(docs/parameters.md lists them)')
    parser.add_argument('--backend', choices=('auto', 'cuda', 'cpu'),
                        help='what computes (default: auto)')


def add_json_option(parser: argparse.ArgumentParser) -> None:
    """--json."""
    parser.add_argument('--json', action='store_true',
                        help='print every figure as JSON instead of a table')


def chosen_settings(options: argparse.Namespace) -> dict[str, Value]:
    """Settings that the command line names: the preset's, then --set, then --backend.

    :raises ConfigError: an unknown name or a refused value.
    """
    values = load_preset(options.preset) if options.preset else {}
    values.update(parse_assignments(options.settings))
    if options.backend:
        values['backend'] = options.backend
    known = MatcherConfig.settings()
    for name in values:
        if name not in known:
            raise ConfigError(name, values[name], 'it is a setting of the node, not of a matcher')
    return values


def names_range(options: argparse.Namespace) -> bool:
    """Whether --set names disparity_range: a preset's is for no set in particular."""
    return any(text.startswith('disparity_range=') for text in options.settings)


def print_json(report: Mapping[str, Any]) -> None:
    """One JSON document on standard output."""
    json.dump(report, sys.stdout, indent=2, allow_nan=False)
    print()


def write_json(path: pathlib.Path, report: Mapping[str, Any]) -> None:
    """One JSON document into a file."""
    path.write_text(json.dumps(report, indent=2, allow_nan=False) + '\n', encoding='utf-8')


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *,
                is_text: bool = False) -> None:
    """A table on standard output: the first column is text, the others are figures.

    :param is_text: the others are text, too, and fold where a line is too long.
    """
    table = Table(title=title, title_justify='left')
    for index, column in enumerate(columns):
        folds = is_text and index > 0
        table.add_column(column, justify='right' if index and not is_text else 'left',
                         no_wrap=not folds, overflow='fold')
    for row in rows:
        table.add_row(*row)
    # A pipe or a log has no width of its own; wrapped figures could not be read there.
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def progress_bar() -> Progress:
    """A progress bar on standard error that leaves nothing behind where nobody watches."""
    return Progress(TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn(),
                    TimeElapsedColumn(), TimeRemainingColumn(),
                    console=Console(stderr=True))
