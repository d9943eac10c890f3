"""``stereo_bp match SOURCE``: results of every pair of a folder, a bag or a video, as files.

``docs/reference/files.md`` has the folder that it makes.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import hashlib
import json
import logging
import pathlib
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from stereo_bp_ros import __version__
from stereo_bp_ros.checks import checks
from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli import progress
from stereo_bp_ros.cli.outputs import check_results_folder
from stereo_bp_ros.cli.source_options import chosen_topics, open_sources
from stereo_bp_ros.config.files import AUTO
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.evaluation.method import Method
from stereo_bp_ros.evaluation.runs import Skipped, for_each_pair, observe_pair
from stereo_bp_ros.frame.disparity_frame import OUTPUTS, DisparityFrame
from stereo_bp_ros.images import files, output_files, pictures
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import Issue, summarise
from stereo_bp_ros.sources.bag_topics import StereoTopics
from stereo_bp_ros.sources.pairs import Chunk, Input, Pair, Sources, Unread, inputs_of
from stereo_bp_ros.stream.stereo_stream import StereoStream
from stereo_bp_ros.system.bounded import MAX_REPORT_BYTES, resolved

#: What is written of each pair, with the ending of its files where --write names none.
ENDINGS = {'disparity': '.pfm', 'depth': '.pfm', 'points': '.ply', 'confidence': '.pfm',
           'picture': '.png'}

#: Endings of pictures.
PICTURES = ('.png', '.jpg')

#: The file that says what the results in a folder are of.
DESCRIPTION = 'match.json'

#: Settings that change no result.
WITHOUT_EFFECT = ('num_threads', 'device_id')

_log = logging.getLogger(__name__)


def outputs_of(text: str) -> dict[str, str]:
    """Type of --write: outputs with the endings of their files, e.g. disparity,depth.png."""
    found = {}
    for part in text.split(','):
        name, dot, ending = part.partition('.')
        if name not in ENDINGS or name in found:
            raise argparse.ArgumentTypeError(
                f'{shown(text)} must be a list of {", ".join(ENDINGS)}, each once, with or '
                'without an ending such as depth.png')
        endings = PICTURES if name == 'picture' else output_files.ENDINGS[name]
        found[name] = dot + ending or ENDINGS[name]
        if found[name] not in endings:
            raise argparse.ArgumentTypeError(f'{shown(part)}: a file of {name} must end in '
                                             + ', '.join(endings))
    return found


def run(options: argparse.Namespace) -> int:
    """Match every pair that has no results yet; returns the status.

    :raises ValueError, StereoError: an option does not fit, or a pair cannot be read or matched.
    """
    if options.output is None:
        raise ValueError(f'{options.left} is a set of pairs: name a folder for the results with '
                         '--output DIR, or a right image')
    topics = chosen_topics(options)
    inputs = ((Input.of_videos(options.left, options.right),) if options.right
              else inputs_of([options.left]))
    sources = open_sources(inputs, topics)
    config = MatcherConfig.from_mapping(shared.chosen_settings(
        options, otherwise=AUTO, size=sources.first_size))
    check_results_folder(options.output, DESCRIPTION, (
        *sources.paths, options.calibration, options.rectify, options.params_file))
    first = sources.first_pair()
    if first is None:
        raise StereoError(f'{sources} has no stereo pairs that can be read')
    outputs = _allowed(options.write, first)
    if config.min_depth and first.calibration is None:
        _log.warning('min_depth has no effect without --calibration; %d disparities are searched',
                     config.disparity_range)
    _describe(options.output, _description(sources, topics, config, outputs))
    shared.say_preset(options)
    method = Method(repeat=1, own_range=shared.names_range(options))
    with StereoStream(config) as stream:
        matching = SetMatching(options.output, outputs, stream, config, method)
        skipped: list[Skipped] | None = [] if options.skip_unreadable else None
        try:
            with progress.Bar('match') as bar:
                task = bar.add_task(f'Matching {sources.title}', total=sources.count)
                for chunk in sources.chunks():
                    with contextlib.closing(sources.unread(chunk)) as pairs:
                        for _ in for_each_pair(matching.match, matching.without_done(
                                chunk, pairs, lambda: bar.advance(task)), chunk.place, skipped):
                            pass
        finally:
            issues = matching.warn()
        backend = stream.matcher.backend
    if skipped:
        _log.warning('%d of %d pairs cannot be read and are left out, e.g. %s: %s', len(skipped),
                     sources.count, skipped[0].name, skipped[0].error)
    report = {'source': str(sources), 'output': str(options.output), 'backend': backend,
              'matched': len(matching.times_ms), 'kept': matching.kept,
              'skipped': [dataclasses.asdict(one) for one in skipped or ()],
              'median_ms': statistics.median(matching.times_ms) if matching.times_ms else None,
              'valid_fraction': statistics.fmean(matching.valid) if matching.valid else None,
              'files': {name: str(options.output / name / f'NAME{ending}')
                        for name, ending in outputs.items()}, 'issues': issues}
    if options.json:
        shared.print_json(report)
    else:
        _print(report)
    return 0


def picture_of(left: np.ndarray | RawImage, frame: DisparityFrame) -> np.ndarray:
    """The left image beside the coloured disparity, or above it: uint8 H x W x 3 (BGR)."""
    assert frame.disparity is not None
    found = frame.disparity, frame.valid
    low, high = pictures.color_range(found)
    return pictures.comparison(left, {'match': found}, low=low, high=high).picture


class SetMatching:
    """Matches pairs of one source, and writes the results of those that have none yet.

    :param folder: gets OUTPUT/NAME.ENDING of each pair; names with folders keep them.
    :param outputs: their endings by the outputs.
    """

    def __init__(self, folder: pathlib.Path, outputs: Mapping[str, str], stream: StereoStream,
                 config: MatcherConfig, method: Method) -> None:
        self._folder, self._outputs = folder, dict(outputs)
        self._stream, self._config, self._method = stream, config, method
        self._names: set[str] = set()
        self._left_out: collections.Counter[str] = collections.Counter()
        self._issues: list[list[Issue]] = []
        #: Pairs whose results were there already.
        self.kept = 0
        #: Of each pair that was matched: milliseconds, and share of valid pixels.
        self.times_ms: list[float] = []
        self.valid: list[float] = []

    def without_done(self, chunk: Chunk, pairs: Iterator[Unread], advance: Any
                     ) -> Iterator[Unread]:
        """The pairs that have to be read.

        Of a sequence whose rows are corrected these are all: a pair is corrected by what those
        before it have shown.

        :param advance: is called once a pair is done.
        :raises StereoError: a name leads out of the folder.
        """
        follows = chunk.is_sequence and self._config.row_correction == 'correct'
        for one in pairs:
            path = pathlib.PurePosixPath(one.name)
            if path.is_absolute() or '..' in path.parts:
                raise StereoError(f'the name {shown(one.name)} of a pair leads out of '
                                  f'{self._folder}')
            if one.name in self._names:
                self._left_out['have the name of an earlier one'] += 1
            elif self._is_done(one.name) and not follows:
                self.kept += 1
            else:
                yield one
            self._names.add(one.name)
            advance()

    def match(self, pair: Pair) -> None:
        """Observe a pair; match it and write its results, unless they are there.

        :raises StereoError, ValueError: it is rejected, or a file cannot be written.
        """
        observe_pair(self._stream, self._config, self._method, pair)
        if self._is_done(pair.name):
            self.kept += 1
            return
        known = [name for name in self._outputs if name in OUTPUTS and (
            pair.calibration is not None or not OUTPUTS[name].needs_calibration)]
        start = time.perf_counter()
        frame = self._stream.match(outputs=tuple({'disparity': None, **dict.fromkeys(known)}))
        self.times_ms.append(1e3 * (time.perf_counter() - start))
        self._issues.append([*checks.enforce(pair.issues, self._stream.config),
                             *self._stream.issues])
        self.valid.append(float(frame.valid.mean()))
        for name in self._outputs:
            path = self._path(name, pair.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if name == 'picture':
                files.write_image(path, picture_of(pair.left, frame))
            elif name in known:
                frame.save(path, name)
            else:
                self._left_out[f'have no calibration, and no {name}'] += 1
        if self._outputs.get('disparity') == '.png':
            assert frame.disparity is not None
            self._left_out['have disparities below 0, which PNG does not hold'] += bool(
                np.any(frame.disparity[frame.valid] < 0))

    def warn(self) -> list[dict[str, Any]]:
        """Log every issue once, and what was left out; returns the issues, for JSON."""
        for what, count in self._left_out.items():
            if count:
                _log.warning('%d pairs %s', count, what)
        found = list(summarise(self._issues))
        for issue, count in found:
            _log.warning('%s (%d of %d pairs)', issue, count, len(self._issues))
        return [{**issue.to_dict(), 'pairs': count} for issue, count in found]

    def _path(self, output: str, name: str) -> pathlib.Path:
        return self._folder / output / f'{name}{self._outputs[output]}'

    def _is_done(self, name: str) -> bool:
        """Whether every file is there; each was written whole."""
        return all(self._path(output, name).is_file() for output in self._outputs)


def _allowed(named: Mapping[str, str] | None, first: Pair) -> dict[str, str]:
    """What is written: what was named, or else everything that the calibration allows.

    :raises ValueError: what was named needs a calibration.
    """
    lacking = [name for name in named or ENDINGS if name in OUTPUTS
               and OUTPUTS[name].needs_calibration and first.calibration is None]
    if lacking and named:
        raise ValueError(f'{lacking[0]} needs a calibration, and {first.name} has none: '
                         '--calibration FILE, or --rectify FILE')
    if lacking:
        shared.say(f'stereo_bp match: without a calibration there is no {" and no ".join(lacking)}'
                   ' (--calibration FILE)', file=sys.stderr)
    return {name: ending for name, ending in (named or ENDINGS).items() if name not in lacking}


def _description(sources: Sources, topics: StereoTopics, config: MatcherConfig,
                 outputs: Mapping[str, str]) -> dict[str, Any]:
    """What the results are of: where this differs, so may they."""
    given = [path for path in (topics.calibration, topics.rectification) if path]
    options = dict(zip(topics.options()[::2], topics.options()[1::2], strict=True))
    return {
        'stereo_bp_ros': __version__, 'source': [str(resolved(path)) for path in sources.paths],
        'options': {**options, '--rectified': topics.rectified},
        'content': {path: hashlib.sha256(files.read_bytes(path, 'calibration')).hexdigest()
                    for path in given},
        'outputs': dict(outputs),
        'settings': {name: value for name, value in config.to_mapping().items()
                     if name not in WITHOUT_EFFECT}}


def _describe(folder: pathlib.Path, description: Mapping[str, Any]) -> None:
    """Write what the results are of, or compare it with what is there.

    :raises StereoError: the folder has results of something else.
    """
    path = folder / DESCRIPTION
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        shared.write_json(path, description)
        return
    try:
        earlier = json.loads(files.read_bytes(path, 'description', MAX_REPORT_BYTES))
        known = {key: dict(earlier[key]) if isinstance(value, dict) else earlier[key]
                 for key, value in description.items()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StereoError(f'{path} is not what an earlier run wrote: name another folder'
                          ) from error
    for key, value in json.loads(json.dumps(description)).items():
        for what, now, before in _differences(key, value, known[key]):
            raise StereoError(f'{folder} has results of another run: {what} is {shown(now)}, and '
                              f'was {shown(before)} ({path}): name another folder')


def _differences(key: str, now: Any, before: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(now, dict):
        for name in dict.fromkeys((*now, *before)):
            if now.get(name) != before.get(name):
                yield name, now.get(name), before.get(name)
    elif now != before:
        yield key, now, before


def _print(report: Mapping[str, Any]) -> None:
    rows = [('back end', report['backend']), ('pairs matched', str(report['matched']))]
    if report['kept']:
        rows.append(('pairs with results of an earlier run', str(report['kept'])))
    if report['skipped']:
        rows.append(('pairs that cannot be read', str(len(report['skipped']))))
    if report['matched']:
        rows += [('median time of a pair', f'{report["median_ms"]:.2f} ms'),
                 ('valid pixels, mean', f'{100 * report["valid_fraction"]:.1f} %')]
    shared.print_table('stereo_bp match', ('', 'value'), rows)
    for what, name in report['files'].items():
        shared.say(f'Wrote {what}: {name}')
