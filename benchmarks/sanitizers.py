"""Run kernels under the four tools of NVIDIA's compute-sanitizer, one configuration a process.

    python -m benchmarks.sanitizers
    python -m benchmarks.sanitizers --tools memcheck --only road sad_fast --output errors.json

Two frames of 96 x 64 pixels are matched with every output. First all configurations run without
a tool, which compiles their kernels to the disk. A cell is the number of errors, for racecheck of
hazards. Every array of an engine gets an allocation of its own, so that memcheck notices an
access beyond it. For initcheck only what is to begin as 0 is cleared; the engine clears all.
The status is 1 where a tool has found something.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from benchmarks import common
from stereo_bp_ros import (
    Calibration,
    MatcherConfig,
    RawCamera,
    RawImage,
    Rectification,
    StereoMatcher,
)
from stereo_bp_ros.frame.disparity_frame import OUTPUTS
from stereo_bp_ros.images.raw_images import ENCODINGS

TOOLS = ('memcheck', 'racecheck', 'initcheck', 'synccheck')

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]

#: Where CUDA's toolkit is installed when its programs are not on the path.
TOOLKIT = pathlib.Path(os.environ.get('CUDA_HOME', '/usr/local/cuda'))


class Case(NamedTuple):
    """A configuration, and the images that it matches.

    is_corrected: the right image goes through maps, by ``StereoMatcher.correct_rows``.
    """

    settings: Mapping[str, Any]
    preset: str = ''
    encoding: str = 'mono8'
    width: int = 96
    height: int = 64
    is_on_device: bool = False
    is_corrected: bool = False

    @property
    def config(self) -> MatcherConfig:
        """Of 24 disparities where the case does not say another number."""
        settings = {'disparity_range': 24, **self.settings}
        return (MatcherConfig.preset(self.preset, **settings) if self.preset
                else MatcherConfig.from_mapping(settings))


_WHOLE = {'preprocessing': 'none', 'data_weight': 0.1, 'data_truncation': 15.0,
          'discontinuity_slope': 1.0, 'levels': 4}
_COSTS = {'census_weight': 0.8, 'sparse_census_weight': 0.5, 'sobel_weight': 1.0,
          'grey_weight': 0.5, 'discontinuity_slope': 20.0,
          'discontinuity_truncation': 120.0, 'levels': 3}
_PLAIN = {**_WHOLE, 'message_type': 'float32', 'program': 'plain_steps'}
_TILED = {'tile_size': 13}

CASES: dict[str, Case] = {
    **{name: Case({}, name) for name in (
        'road_full', 'road', 'road_fast', 'road_sobel', 'indoor', 'five_sets', 'sad_fast',
        'sad_venus')},
    'odd_size': Case({'disparity_range': 17}, 'road_full', width=101, height=59),
    'bp_int16': Case(_WHOLE),
    'bp_fractions': Case({**_WHOLE, 'data_weight': 0.0731}),
    'exact': Case({**_WHOLE, 'message_type': 'float32', 'exact': True}),
    'all_costs': Case({**_COSTS, 'census_window': '5x5', 'path_aggregation': True}),
    'first_step': Case({**_COSTS, 'discontinuity_first_step': 5.0, 'census_window': '7x5'}),
    'image_edges': Case({**_COSTS, 'discontinuity_edge_threshold': 20}),
    'right_reference': Case({'reference_image': 'right', 'filling': 'background'}, 'road_full'),
    'filling_plane': Case({'filling': 'plane', 'bilateral_passes': 2}, 'road_full'),
    'preprocessing': Case({'preprocessing': 'residual', 'residual_iterations': 2,
                           'smoothing_sigma': 1.0, 'texture_threshold': 50,
                           'median_window_size': 5}),
    'downscale_3': Case({'downscale': 3}, 'road_full'),
    'bgr8': Case({}, 'road_full', 'bgr8'),
    'mono16': Case({}, 'road_full', 'mono16'),
    'bayer': Case({}, 'road_full', 'bayer_rggb8'),
    'on_device': Case({}, 'road_full', is_on_device=True),
    'rectified': Case({'rectify': True}, 'road_full'),
    'rectified_colour': Case({'rectify': True, 'downscale': 2}, 'road_full', 'bayer_rggb8'),
    'corrected': Case({}, 'road_full', 'bgr8', is_corrected=True),
    'corrected_mono16': Case({'reference_image': 'right', 'downscale': 2}, 'road_full', 'mono16',
                             is_corrected=True),
    'few_points': Case({'points_decimation': 3, 'points_max_depth': 50.0}, 'road_full'),
    'partitions': Case({'partition_columns': 2, 'partition_rows': 2, 'partition_padding': 8},
                       'road_full'),
    'band_partitions': Case({'partition_columns': 2, 'partition_padding': 8, 'min_disparity': -4,
                             'filling': 'plane'}, 'road'),
    'partitions_float32': Case({'partition_rows': 2, 'partition_padding': 8, 'levels': 3},
                               'five_sets'),
    'tiled_bp': Case(_TILED, 'tsukuba_2019'),
    'tiled_bp_float32': Case({**_TILED, 'message_type': 'float32'}, 'tsukuba_2019'),
    **{f'tiled_{schedule}': Case({**_TILED, 'program': 'tiled_barriers',
                                  'tiled_barriers.schedule': schedule}, 'tsukuba_2019')
       for schedule in ('lock_free', 'launches', 'rows', 'speculative')},
    'plain_steps': Case({**_PLAIN, 'plain_steps.allocation': 'separate'}),
    'plain_shared': Case({**_PLAIN, 'plain_steps.storage': 'shared'}),
    'plain_float16': Case({**_PLAIN, 'message_type': 'float16',
                           'plain_steps.packed_halves': True}),
    'streamed_sad': Case({'program': 'streamed_sad'}, 'sad_venus'),
}

#: Beginnings of the names of arrays whose content before the first frame matters: a counter, and
#: what tiles tell each other.
ZERO_AT_FIRST = ('ended', 'coarse_ended', 'tile_state', 'edges_')

#: Lines that are printed of a run with findings.
MAX_REPORT = 60

#: Last line of a tool. A second one counts what ``--print-limit`` has left out.
_SUMMARY = re.compile(r'^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)', re.MULTILINE)


class Result(NamedTuple):
    """Of one tool with one configuration; ``findings`` is None where the run came to no end."""

    tool: str
    case: str
    findings: int | None
    seconds: float
    report: str

    @property
    def cell(self) -> str:
        """Of the table."""
        if self.findings is None:
            return 'failed'
        return str(self.findings) if self.tool else f'{self.seconds:.1f}'


def main() -> int:
    """Read the command line, run everything, print the table, and return the status."""
    parser = common.parser(__doc__)
    parser.add_argument('--tools', nargs='+', choices=TOOLS, default=list(TOOLS), metavar='TOOL',
                        help='default: ' + ' '.join(TOOLS))
    parser.add_argument('--only', nargs='+', choices=CASES, default=list(CASES),
                        metavar='CASE', help='default: all of ' + ' '.join(CASES))
    common.add_count(parser, '--jobs', 12, 'processes at a time')
    common.add_count(parser, '--seconds', 120, 'limit of one process', 'S')
    parser.add_argument('--sanitizer', default=found_sanitizer(), metavar='PROGRAM',
                        help='default: %(default)s')
    parser.add_argument('--match', choices=CASES, help=argparse.SUPPRESS)
    parser.add_argument('--not-cleared', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--backend', default='cuda', help=argparse.SUPPRESS)
    common.add_output(parser)
    options = parser.parse_args()
    if options.match:
        match(CASES[options.match], options.backend, is_cleared=not options.not_cleared)
        print(f'matched {options.match}')
        return 0
    if shutil.which(options.sanitizer) is None:
        parser.error(f'there is no {options.sanitizer}: it is a part of the CUDA toolkit')
    start = time.perf_counter()
    config = MatcherConfig(backend=options.backend)
    common.print_machine(config)
    results: list[Result] = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for tools in ([''], options.tools):
            results += pool.map(lambda each: run(each[0], each[1], options),
                                list(itertools.product(tools, options.only)))
    common.print_head('configuration', *(tool or 'without, s' for tool in ('', *options.tools)))
    for case in options.only:
        common.print_row(case, *(one.cell for one in results if one.case == case))
    bad = [one for one in results if one.findings != 0]
    for one in bad:
        print(f'\n{one.tool or "no tool"}, {one.case}:\n{one.report}')
    print(f'\n{len(results)} runs, {len(bad)} with findings, '
          f'{time.perf_counter() - start:.0f} s')
    common.write_report(options.output, config, results=[one._asdict() for one in results])
    return 1 if bad else 0


def run(tool: str, case: str, options: argparse.Namespace) -> Result:
    """One tool with one configuration; no tool = the configuration alone."""
    start = time.perf_counter()
    process = subprocess.Popen(command(tool, case, options.sanitizer, options.backend),
                               cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors='replace', start_new_session=True)
    try:
        printed, _ = process.communicate(timeout=options.seconds)
    except subprocess.TimeoutExpired:
        # The tool starts the program as a process of its own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        printed = process.communicate()[0] + f'\nkilled after {options.seconds} s'
    count = errors(tool, case, printed, process.returncode)
    lines = [] if count == 0 else printed.splitlines()
    if len(lines) > MAX_REPORT:
        lines[MAX_REPORT - 12:-12] = ['[...]']
    return Result(tool, case, count, time.perf_counter() - start, '\n'.join(lines))


def command(tool: str, case: str, sanitizer: str, backend: str = 'cuda') -> list[str]:
    """What runs one configuration, under a tool if there is one."""
    child = [sys.executable, '-m', 'benchmarks.sanitizers', '--match', case, '--backend', backend]
    if not tool:
        return child
    if tool == 'initcheck':
        child.append('--not-cleared')
    return [sanitizer, '--tool', tool, '--target-processes', 'application-only',
            '--print-limit', '20', *child]


def errors(tool: str, case: str, printed: str, status: int) -> int | None:
    """How many errors a tool has counted; None where it, or the program under it, has failed."""
    if f'matched {case}' not in printed.splitlines():
        return None
    if not tool:
        return 0 if status == 0 else None
    found = _SUMMARY.search(printed)
    return int(found.group(1)) if found else None


def found_sanitizer() -> str:
    """The program of this machine, or its name where there is none."""
    places = (TOOLKIT / 'bin/compute-sanitizer', TOOLKIT / 'compute-sanitizer/compute-sanitizer')
    return (shutil.which('compute-sanitizer')
            or next((str(place) for place in places if place.is_file()), 'compute-sanitizer'))


def match(case: Case, backend: str, *, is_cleared: bool = True) -> None:
    """Two frames of a configuration with every output, by an engine with arrays apart."""
    from stereo_bp_ros.engines.cuda import engine
    arena = functools.partial(arena_apart, is_cleared)
    calibration = Calibration(focal_px=80, baseline_m=0.2, cx_left=48, cx_right=48.5, cy=32)
    rectification = rectified(case) if case.config.rectify else None
    with mock.patch.object(engine, 'Arena', arena), StereoMatcher(case.config, backend) as matcher:
        if case.is_corrected:
            matcher.correct_rows((1.002, 0.01, -1.4, -0.01, 1.003, 1.7, 1e-6, 1e-6, 1))
        for seed in (1, 2):
            pair = [image(case, seed, shift) for shift in (0, -5)]
            matcher.compute(*pair, calibration=calibration, rectification=rectification,
                            outputs=tuple(OUTPUTS))


def image(case: Case, seed: int, shift: int) -> Any:
    """Noise in the encoding of a case, moved by some columns; its rows end in padding."""
    known = ENCODINGS[case.encoding]
    random = np.random.default_rng(seed).integers(
        0, 256, (known.rows(case.height), case.width, known.pixel_bytes), np.uint8)
    moved = np.roll(random, shift, axis=1)
    if case.is_on_device:
        import cupy
        return cupy.asarray(moved[:, :, 0])
    rows = np.pad(moved.reshape(len(moved), -1), ((0, 0), (0, 3)))
    return RawImage(rows.tobytes(), case.height, case.width, rows.shape[1], case.encoding)


def rectified(case: Case) -> Rectification:
    """Of two cameras with a little distortion."""
    focal, cx, cy = 80.0, case.width / 2, case.height / 2
    k = (focal, 0, cx, 0, focal, cy, 0, 0, 1)
    left, right = (
        RawCamera('plumb_bob', (-0.1, 0.02, 0.001, 0.001), k, (),
                  (focal, 0, cx, shift, 0, focal, cy, 0, 0, 0, 1, 0))
        for shift in (0.0, -0.2 * focal))
    return Rectification(left, right, case.width, case.height)


def arena_apart(is_cleared: bool, *arguments: Any) -> Any:
    """An arena with an allocation for each array on the device.

    :param is_cleared: all of it, as the engine's own arena, not ``ZERO_AT_FIRST`` alone.
    """
    from cupy.cuda import memory, runtime

    from stereo_bp_ros.engines.cuda.runtime.arena import Arena

    made = Arena(*arguments)
    if made.is_shared:
        return made
    pieces = {name: memory.Memory(made.nbytes[name]) for name in made.device}
    for name, piece in pieces.items():
        if made.nbytes[name] and (is_cleared or name.startswith(ZERO_AT_FIRST)):
            runtime.memsetAsync(piece.ptr, 0, made.nbytes[name], arguments[-1])
        made.device[name] = piece.ptr
    made._memory = pieces
    return made


if __name__ == '__main__':
    sys.exit(main())
