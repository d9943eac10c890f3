"""The command line of the gates."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import time

from benchmarks import gates
from benchmarks.gates import doors
from benchmarks.gates.cases import cases
from benchmarks.gates.comparison import compare
from benchmarks.gates.records import kernels, plans


def main(arguments: list[str] | None = None) -> int:
    """Read the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        description=gates.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest='verb', required=True)
    of_kernels, of_plans = verbs.add_parser('kernels'), verbs.add_parser('plans')
    for verb in (of_kernels, of_plans):
        verb.add_argument('--output', type=pathlib.Path, required=True)
    of_kernels.add_argument('--arch', help='numbers with commas, as 75,90; default: all')
    of_kernels.add_argument('--ranges', help='disparity ranges with commas; default: all')
    comparison = verbs.add_parser('compare')
    comparison.add_argument('old', type=pathlib.Path)
    comparison.add_argument('new', type=pathlib.Path)
    comparison.add_argument('--names', type=pathlib.Path, help='JSON: old name to new name')
    comparison.add_argument('--ignore', action='append', default=[],
                            help='field of plans that does not count, as arguments')
    given = parser.parse_args(arguments)
    if given.verb == 'compare':
        names = json.loads(given.names.read_text()) if given.names else {}
        is_equal, lines = compare(json.loads(given.old.read_text()),
                                  json.loads(given.new.read_text()), names,
                                  frozenset(given.ignore))
        print('\n'.join(lines[:21]))
        return 0 if is_equal else 1
    start = time.perf_counter()
    if given.verb == 'kernels':
        asked = tuple(f'sm_{number}' for number in given.arch.split(',')) if given.arch else ()
        made = kernels(asked or doors.architectures(),
                       tuple(map(int, given.ranges.split(','))) if given.ranges else ())
    else:
        made = plans(cases())
    given.output.write_text(json.dumps(made, indent=0, sort_keys=True) + '\n')
    print(f'{len(made["entries"])} {made["kind"]} in {time.perf_counter() - start:.0f} s')
    return 0


if __name__ == '__main__':
    sys.exit(main())
