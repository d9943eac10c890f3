"""Pass conditions as version 0.1 had them, converted; the next version drops this file."""

from __future__ import annotations

import re

from stereo_bp_ros.evaluation.metrics import THRESHOLDS
from stereo_bp_ros.evaluation.regions import distance_name

_NUMBER = r'\d{1,9}(?:\.\d{1,9})?'
_SENTENCE = re.compile(
    r'(?P<figure>[\w.\- ]+?)(?: of (?P<part>[\w ]+?))? ?(?P<sign><=|>=) ?'
    rf'(?P<number>{_NUMBER}) ?(?P<unit>%|ms|mib|m|px|grey|hz|fps|frames|x (?P<other>[\w.\-]+)|)'
    rf'(?: between (?P<near>{_NUMBER}) and (?P<far>{_NUMBER}|inf) ?m)?'
    r'(?P<every> in every frame)?', re.IGNORECASE)

#: Figures of a frame: path in it and unit.
_OF_FRAME = {
    **{name: (path, '%') for words, key in (*((f'bad{n:g}', f'bad_{n:g}') for n in THRESHOLDS),
                                            ('d1', 'd1'))
       for name, path in ((words, f'score.{key}_estimated'),
                          (f'{words} or hole', f'score.{key}_known'),
                          (f'filled {words}', f'filled.{key}_known'))},
    'epe': ('score.mae', 'px'), 'filled epe': ('filled.mae', 'px'),
    'rms': ('score.rms', 'px'), 'filled rms': ('filled.rms', 'px'),
    'density': ('score.density', '%'), 'coverage': ('score.coverage', '%'),
    'error_m': ('depth.mean_m', 'm'), 'error_m p50': ('depth.p50_m', 'm'),
    'error_m p90': ('depth.p90_m', 'm'), 'relative error': ('depth.relative_mean', '%'),
    'bad3 ause': ('sparsification.bad_3.ause', '%'),
    'epe ause': ('sparsification.mae.ause', 'px'),
    'left-right confirmed': ('consistency.confirmed', '%'),
    'left-right contradicted': ('consistency.contradicted', '%'),
    'photometric error': ('consistency.grey_mean', 'grey'),
    'photometric error p50': ('consistency.grey_p50', 'grey'),
    'static': ('consistency.static', '%'), 'flicker': ('consistency.flicker', '%'),
    'road inliers': ('consistency.road_inliers', '%'), 'road rms': ('consistency.road_rms', 'px'),
    'obstacles per frame': ('obstacles.found_per_frame', ''),
    'false obstacles per frame': ('obstacles.false_per_frame', ''),
    'frames with false obstacles': ('obstacles.false_frames', '%')}

#: Figures of the obstacles of the truth, of all frames together: key and unit.
_DETECTIONS = {'obstacles seen': ('seen', '%'),
               'smallest obstacle seen': ('smallest_seen_m', 'm'),
               'largest obstacle missed': ('largest_missed_m', 'm')}

#: Figures of the run: path and unit.
_OF_RUN = {
    **{share: (f'latency_ms.total.{share}', 'ms') for share in ('p50', 'p99', 'p99.9')},
    'mean': ('BasicPerformanceMetrics.MEAN_LATENCY', 'ms'),
    'max': ('BasicPerformanceMetrics.MAX_LATENCY', 'ms'),
    'rate': ('BasicPerformanceMetrics.MEAN_FRAME_RATE', 'hz'),
    'engine memory': ('engine_bytes', 'mib'), 'process memory': ('process_bytes', 'mib'),
    **{count: (f'delivery.{count}', 'frames') for count in (
        'sent', 'received', 'published', 'recorded', 'superseded', 'dropped', 'lost')}}


def convert_figure(words: str, part: str = '', window: str = '', every: bool = False
                   ) -> tuple[str, str]:
    """Path and unit of a figure in the words of version 0.1; ('', '') where it was none.

    :param part: a region or stage; ``window``: name of a region by distance.
    """
    name = re.sub(r'\bbad[-_ ](?=\d)', 'bad', words.lower()).removeprefix('valid ')
    if d1 := re.search(r'\bd1-(all|bg|fg)\b', name):
        name = name.replace(d1[0], 'd1')
        part = {'all': part, 'bg': 'background', 'fg': 'vehicles'}[d1[1]]
    begin = 'pairs.*.' if every else 'mean.'
    if name in _OF_FRAME:
        path, unit = _OF_FRAME[name]
        if part == 'sky' and path.startswith('score.'):
            return f'{begin}sky.{path.rpartition(".")[2]}', unit
        region = window or part
        return begin + (f'regions.{region}.' if region else '') + path, unit
    if name in _DETECTIONS:
        key, unit = _DETECTIONS[name]
        return (f'{begin if every else ""}obstacles.by_distance.{window or "0_inf_m"}.{key}',
                unit)
    if name not in _OF_RUN or window or every:
        return '', ''
    path, unit = _OF_RUN[name]
    if part and name == 'mean':
        path = 'mean.device_ms' if part == 'device' else f'mean.stages_ms.{part}'
    elif part and name == 'max':
        path = 'pairs.*.device_ms' if part == 'device' else f'pairs.*.stages_ms.{part}'
    elif part:
        path = path.replace('total', part)
    return path, unit


def convert(text: str) -> str:
    """A condition of version 0.1 as ``PATH <= NUMBER``; '' where it was none."""
    match = _SENTENCE.fullmatch(text)
    if match is None:
        return ''
    window = distance_name(float(match['near']), float(match['far'])) if match['near'] else ''
    path, unit = convert_figure(match['figure'], '_'.join((match['part'] or '').lower().split()),
                                window, match['every'] is not None)
    if not path:
        return ''
    number, given = float(match['number']), match['unit'].lower()
    limit = f'{number:.15g}'
    if match['other']:
        limit += f' * against.{match["other"]}.{path}'
    elif unit == 'frames' and given == '%':
        limit = f'{number / 100:.15g} * delivery.sent'
    elif unit == '%' and not given and 0 < number < 1:
        limit = f'{100 * number:.15g}'
    elif unit == 'mib' and given == 'mib':
        limit = f'{number * 2**20:.15g}'
    elif given.replace('fps', 'hz') != unit and not (
            not given and (unit == 'frames' or 'error_m' in match['figure'])):
        return ''
    return f'{path} {match["sign"]} {limit}'
