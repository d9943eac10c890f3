"""The command line of the gates."""

from __future__ import annotations

import json
import pathlib
import sys
import time

from benchmarks import common, gates
from benchmarks.gates import comparison, kernels, plans
from benchmarks.gates.cases import cases


def main(arguments: list[str] | None = None) -> int:
    """Read the command line; returns the exit status."""
    parser = common.parser(gates.__doc__)
    verbs = parser.add_subparsers(dest='verb', required=True)
    of_kernels, of_plans = verbs.add_parser('kernels'), verbs.add_parser('plans')
    for verb in (of_kernels, of_plans):
        verb.add_argument('--output', type=pathlib.Path, required=True)
    of_kernels.add_argument('--arch', nargs='+', default=[], help='such as sm_90; default: all')
    of_kernels.add_argument('--ranges', nargs='+', type=int, default=[],
                            help='disparity ranges; default: all')
    comparing = verbs.add_parser('compare')
    comparing.add_argument('old', type=pathlib.Path)
    comparing.add_argument('new', type=pathlib.Path)
    comparing.add_argument('--names', type=pathlib.Path, help='JSON: old name to new name')
    comparing.add_argument('--ignore', action='append', default=[],
                           help='field of plans that does not count, as arguments')
    given = parser.parse_args(arguments)
    if given.verb == 'compare':
        names = json.loads(given.names.read_text()) if given.names else {}
        old, new = (json.loads(file.read_text()) for file in (given.old, given.new))
        is_equal, lines = comparison.compare(old, new, names, frozenset(given.ignore))
        print('\n'.join(lines[:21]))
        return 0 if is_equal else 1
    start = time.perf_counter()
    made = (kernels.record(given.arch, given.ranges) if given.verb == 'kernels'
            else plans.record(cases()))
    given.output.write_text(json.dumps(made, indent=0, sort_keys=True) + '\n')
    print(f'{len(made["entries"])} {made["kind"]} in {time.perf_counter() - start:.0f} s')
    return 0


if __name__ == '__main__':
    sys.exit(main())
