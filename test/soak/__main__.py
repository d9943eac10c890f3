"""Command line of the soak."""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the soak; returns the exit status: 1 = an expectation was violated."""
    parser = argparse.ArgumentParser(prog='python -m test.soak', description=__doc__)
    parser.add_argument('--minutes', type=float, default=60.0, help='how long (60)')
    parser.add_argument('--seed', type=int, default=1, help='of the order of faults (1)')
    parser.add_argument('--output', type=pathlib.Path, default=pathlib.Path('build/soak'),
                        help='folder of the reports and logs (build/soak)')
    parser.add_argument('--backend', default='auto', choices=('auto', 'cpu', 'cuda'),
                        help='of the node (auto)')
    parser.add_argument('--fault', action='append', default=[], metavar='NAME',
                        help='try this fault only; may be given again')
    parser.add_argument('--ends', type=int, default=1, metavar='N',
                        help="nodes that end in each trial of 'a node ends beside dead peers' (1)")
    parser.add_argument('--list', action='store_true', help='list the faults, and end')
    options = parser.parse_args(arguments)

    from test.soak.machine_faults import PRIVATE, own_namespace
    if not options.list and PRIVATE not in os.environ and (prefix := own_namespace()):
        given = sys.argv[1:] if arguments is None else arguments
        os.execvp(prefix[0], [*prefix, sys.executable, '-m', 'test.soak', *given])

    # Before rclpy is imported: no other machine, and a profile for images in shared memory.
    os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
    from stereo_bp_ros.system import process, transport
    transport.prepare()
    from test.soak import run
    from test.soak.trials import FAULTS

    known = {fault.name: fault for fault in FAULTS}
    if options.list:
        for fault in FAULTS:
            print(f'{fault.name}: {fault.expects}')
        return 0
    if unknown := set(options.fault) - known.keys():
        parser.error(f'no such fault: {min(unknown)} (see --list)')
    # Whatever ends this ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    status = run.run(minutes=options.minutes, seed=options.seed, output=options.output,
                     backend=options.backend, ends=options.ends,
                     faults=[known[name] for name in options.fault] or list(FAULTS))
    process.end_despite_faults(status)
    return status


if __name__ == '__main__':
    sys.exit(main())
