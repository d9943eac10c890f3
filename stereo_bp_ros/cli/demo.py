"""The main job from end to end, on this machine: images in on ROS topics, disparity out.

Renders a drive along a street with exact ground truth (or takes --bag or --images), starts the
node as a process of its own, replays the sequence to it over DDS and reports every frame: sent,
received, published, dropped and why, latency by stage, accuracy. First belief propagation at
320 x 240 with 32 disparities and 10 Hz, then SAD at 640 x 480 with 64 disparities and 20 Hz.

  stereo_bp demo
  stereo_bp demo --images sequence/ --output report/
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import shutil
from typing import Any

import numpy as np

from stereo_bp_ros.camera import Calibration
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import Value
from stereo_bp_ros.errors import BackendUnavailable, StereoError
from stereo_bp_ros.evaluation import bags, files, metrics, pictures, report, scenes
from stereo_bp_ros.replay import analysis, session

HELP = 'render a road sequence, replay it through the node, report'

#: Fractions of a run at which pictures are taken.
MOMENTS = (0.15, 0.5, 0.85)


@dataclasses.dataclass(frozen=True)
class Run:
    """One algorithm on one sequence, and what it is held to.

    least_rate_hz: the run fails when fewer frames a second are published; 0 = any rate.
    """

    name: str
    title: str
    settings: dict[str, Value]
    source: pathlib.Path | None = None
    sequence: scenes.RoadSequence | None = None
    least_rate_hz: float = 0.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument('--bag', type=pathlib.Path, help='replay this bag')
    source.add_argument('--images', type=pathlib.Path, metavar='DIR',
                        help='replay this folder of pairs')
    parser.add_argument('--output', type=pathlib.Path, default='demo', metavar='DIR',
                        help='report.json, report.html and pictures (default: demo); '
                             'what an earlier demo left there is replaced')
    parser.add_argument('--frames', type=int, default=0, metavar='N',
                        help='length of the rendered sequences (default 120 and 160)')
    parser.add_argument('--noise', type=float, default=1.5, metavar='SIGMA',
                        help='sensor noise, grey levels (default 1.5)')
    parser.add_argument('--exposure', type=float, default=1.03, metavar='GAIN',
                        help='exposure of the right camera against the left (default 1.03)')
    parser.add_argument('--blur', type=float, default=0.0, metavar='SIGMA',
                        help='blur of the optics, pixels (default 0)')
    parser.add_argument('--rate', type=float, default=1.0, metavar='FACTOR',
                        help='speed of the replay of --bag and --images (default 1)')
    parser.add_argument('--backend', choices=('auto', 'cuda', 'cpu'), default='auto',
                        help='what computes (default: auto)')
    shared.add_json_option(parser)


def run(options: argparse.Namespace) -> int:
    try:
        import rclpy  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable(f'the demo needs ROS 2: {error}',
                                 "source its setup.bash, or pip install 'stereo_bp_ros[ros]'"
                                 ) from error
    _prepare_folder(options.output)
    results = []
    for one in _runs(options):
        results.append(_perform(one, options))
    summary = {'output': str(options.output),
               'runs': {one.name: figures.to_dict() for one, figures, _ in results}}
    shared.write_json(options.output / 'report.json', summary)
    report.write_html(
        options.output / 'report.html', 'Stereo matching on ROS 2',
        'A sequence of stereo pairs was replayed over DDS to the node, which ran as a process of '
        'its own. Every frame is accounted for; latency counts from the receipt of the later '
        'image to the return of publish.',
        [_section(one, figures, pngs) for one, figures, pngs in results])
    if options.json:
        shared.print_json(summary)
    else:
        for one, figures, _ in results:
            _print(one, figures)
        print(f'Report: {options.output / "report.html"}')
    failures = [text for one, figures, _ in results for text in _failures(one, figures)]
    for text in failures:
        print(f'FAILED {text}')
    return 1 if failures else 0


def _prepare_folder(folder: pathlib.Path) -> None:
    """An empty folder; a folder that is not an earlier demo's is left alone."""
    if folder.exists() and any(folder.iterdir()):
        if not (folder / 'report.json').is_file() and not (folder / '.demo').is_file():
            raise StereoError(f'{folder} is not empty and not the output of an earlier demo')
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / '.demo').touch()


def _runs(options: argparse.Namespace) -> list[Run]:
    source = options.bag or options.images
    both: list[tuple[str, str, dict[str, Value]]] = [
        ('bp', 'Hierarchical belief propagation', {'preset': 'road'}),
        ('sad', 'SAD block matching', {'preset': 'sad_fast'})]
    sizes = {'bp': (320, 240, 32, 10.0, 120), 'sad': (640, 480, 64, 20.0, 160)}
    runs = []
    for name, title, settings in both:
        width, height, disparities, rate_hz, frames = sizes[name]
        settings['backend'] = options.backend
        if source:
            settings['disparity_range'] = 64
            runs.append(Run(name, f'{title}: {source.name}', settings, source=source))
            continue
        settings.update(disparity_range=disparities, image_width=width, image_height=height)
        runs.append(Run(
            name, f'{title}, {width} x {height}, {disparities} disparities, {rate_hz:g} Hz',
            settings, least_rate_hz=rate_hz,
            sequence=scenes.RoadSequence(
                width=width, height=height, max_disparity=disparities - 2, rate_hz=rate_hz,
                frames=options.frames or frames, noise_sigma=options.noise,
                exposure_gain=options.exposure, blur_sigma=options.blur)))
    return runs


def _perform(one: Run, options: argparse.Namespace
             ) -> tuple[Run, analysis.Analysis, list[tuple[str, str]]]:
    folder = options.output / one.name
    folder.mkdir()
    source = one.source
    player = ('--rate', str(options.rate))
    with shared.progress_bar() as bar:
        if one.sequence is not None:
            source = folder / 'input'
            _render(one.sequence, source, bar)
        assert source is not None
        total = _count_pairs(source)
        task = bar.add_task(f'{one.name}: starting the node (compiles on the first run)',
                            total=total)

        def show(stage: str, count: int) -> None:
            bar.update(task, completed=count, description=f'{one.name}: {stage}')

        result = session.run_session(source, folder, one.settings, player_options=player,
                                     progress=show)
        figures = analysis.analyse(result)
        if result.node_status:
            figures.frames['node_status'] = result.node_status
        task = bar.add_task(f'{one.name}: comparing with the truth', total=total)
        pngs = _judge(one, source, result.bag, figures, options.output,
                      lambda: bar.advance(task))
    return one, figures, pngs


def _render(sequence: scenes.RoadSequence, path: pathlib.Path, bar: Any) -> None:
    task = bar.add_task(f'Rendering {sequence.width} x {sequence.height}', total=len(sequence))
    workers = min(4, len(os.sched_getaffinity(0)))
    calibration = Calibration(sequence.focal_px, sequence.baseline_m, sequence.cx, sequence.cx,
                              sequence.cy)
    bags.write_bag(path, calibration, (
        (frame.stamp_ns, frame.left, frame.right, frame.disparity)
        for frame in scenes.render(sequence, workers if workers > 1 else 0,
                                   lambda done, _: bar.update(task, completed=done))))


def _count_pairs(source: pathlib.Path) -> int:
    from stereo_bp_ros.replay.source import open_source
    return open_source(source).pairs


def _judge(one: Run, source: pathlib.Path, bag: pathlib.Path, figures: analysis.Analysis,
           output: pathlib.Path, advance: Any) -> list[tuple[str, str]]:
    """Score every answer against the truth of its pair, and take pictures of some."""
    inputs = _inputs(source)
    wanted = {int(moment * figures.frames['recorded']) for moment in MOMENTS}
    scores = []
    coverages = []
    pngs = []
    for index, answer in enumerate(analysis.answers(bag)):
        left, truth = inputs(answer.stamp_ns)
        coverages.append(float(answer.valid.mean()))
        if truth is not None:
            scores.append(metrics.score(answer.disparity, truth, answer.valid))
        if index in wanted:
            name = f'{one.name}_{index:04d}.png'
            files.write_image(output / name, pictures.comparison(
                left, answer.disparity, answer.valid, truth, answer.min_disparity,
                answer.max_disparity, columns=2))
            pngs.append((name, f'{one.title}: frame {index}'))
        advance()
    figures.score = metrics.combine(scores) if scores else None
    figures.valid_fraction = float(np.mean(coverages)) if coverages else 0.0
    return pngs


def _inputs(source: pathlib.Path) -> Any:
    """A function from a stamp to (left image, truth or None); stamps must be asked in order."""
    from stereo_bp_ros.cli.evaluate import open_pairs
    _, pairs = open_pairs(source)

    def find(stamp_ns: int) -> tuple[np.ndarray, np.ndarray | None]:
        for pair in pairs:
            if pair.stamp_ns is None or pair.stamp_ns == stamp_ns:
                left = pair.left
                return (left if isinstance(left, np.ndarray) else pictures.displayable(left),
                        pair.truth)
        raise StereoError(f'{source} has no pair of stamp {stamp_ns}')
    return find


def _failures(one: Run, figures: analysis.Analysis) -> list[str]:
    """What a run was held to and did not reach, in words."""
    found = []
    frames = figures.frames
    if frames.get('node_status'):
        found.append(f'{one.name}: the node ended with status {frames["node_status"]}')
    if frames['lost_in_transport']:
        found.append(f'{one.name}: {frames["lost_in_transport"]} frames are not accounted for')
    if not frames['recorded']:
        found.append(f'{one.name}: nothing was published')
    # The last frame of a sequence ends no interval, so a rate is only known to within one frame.
    if one.least_rate_hz and figures.rate_hz < one.least_rate_hz * (1 - 1 / frames['sent']):
        found.append(f'{one.name}: {figures.rate_hz:.1f} frames a second, '
                     f'not {one.least_rate_hz:g}')
    return found


def _tables(figures: analysis.Analysis) -> list[report.Table]:
    frames = figures.frames
    rows = [[name.replace('_', ' '), str(frames[name])]
            for name in ('sent', 'received', 'published', 'recorded')]
    rows.append(['dropped', str(sum(frames['dropped'].values()))])
    rows += [[f'  {reason}', str(count)] for reason, count in frames['dropped'].items()]
    rows.append(['lost in transport', str(frames['lost_in_transport'])])
    columns = [f'p{p}' for p in analysis.PERCENTILES]
    stages = {name: row for name, row in figures.latency_ms.items() if name != 'age'}
    longest = max((row['p95'] for row in stages.values()), default=0.0) or 1.0
    latency = report.Table(
        'Latency, ms', ['stage', *columns],
        [[name, *(f'{row[c]:.2f}' for c in columns)] for name, row in stages.items()],
        bars=[row['p95'] / longest for row in stages.values()])
    return [report.Table('Frames', ('', 'pairs'), rows), latency]


def _accuracy(figures: analysis.Analysis) -> list[tuple[str, str]]:
    tiles = [(f'{100 * figures.valid_fraction:.1f} %', 'valid pixels')]
    if figures.score is not None and figures.score.known:
        score = figures.score
        tiles = [(f'{score.bad_estimated(3.0):.2f} %', 'bad-3px of the valid pixels'),
                 (f'{score.density:.1f} %', 'density, of the pixels with truth')]
    return tiles


def _section(one: Run, figures: analysis.Analysis, pngs: list[tuple[str, str]]
             ) -> report.Section:
    total = figures.latency_ms.get('total', {'p50': 0.0, 'p99': 0.0})
    return report.Section(
        one.title, tables=_tables(figures), pictures=pngs,
        tiles=[(f'{figures.rate_hz:.1f} Hz', 'published'),
               (f'{total["p50"]:.1f} ms', 'median latency'),
               (f'{total["p99"]:.1f} ms', 'p99 latency'), *_accuracy(figures)])


def _print(one: Run, figures: analysis.Analysis) -> None:
    frames, latency = _tables(figures)
    rows = [*frames.rows, *([what, figure] for figure, what in _accuracy(figures)),
            ['rate', f'{figures.rate_hz:.1f} Hz']]
    shared.print_table(one.title, ('frames', ''), rows)
    shared.print_table('Latency, ms', latency.columns, latency.rows)
