"""--against: what a configuration is compared with."""

from __future__ import annotations

import argparse
import re

from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.mappings import parse_assignments
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import shown
from stereo_bp_ros.evaluation import baselines


def add_argument(parser: argparse.ArgumentParser) -> None:
    """--against."""
    parser.add_argument('--against', action='append', default=[], metavar='NAME[,NAME]',
                        help="match with others, too: OpenCV's sgbm (its mode 3WAY), sgbm_hh (HH) "
                             'and bm, a preset, PRESET:KEY=VALUE,... for one with other settings, '
                             'or any other NAME:KEY=VALUE,... for these settings with changes; '
                             'may be given several times')


def own_name(options: argparse.Namespace, config: MatcherConfig) -> str:
    """What the configuration of the command line is called beside others."""
    name: str = (options.params_file.stem if options.params_file else
                 options.preset or config.stereo_algorithm)
    return name


def chosen(options: argparse.Namespace, own: str, config: MatcherConfig
           ) -> tuple[list[str], dict[str, MatcherConfig]]:
    """Names of OpenCV's matchers, and the other configurations by their names.

    :raises ValueError: a name is unknown, or there twice.
    """
    names: list[str] = []
    others: dict[str, MatcherConfig] = {}
    for text in options.against:
        name, colon, assignments = text.partition(':')
        if colon:
            if not re.fullmatch(r'[\w.-]+', name):
                raise ValueError(f'--against {shown(text)}: a name has letters, digits, _, - '
                                 'and .')
            base = _preset(name, options) if name in preset_names() else config
            found = {name: changed(base, assignments)}
        else:
            words = text.split(',')
            found = {one: _preset(one, options) for one in words if one not in baselines.NAMES}
            names += [one for one in words if one in baselines.NAMES and one not in names]
        for one, other in found.items():
            if one in (own, *others, *(baselines.NAMES if colon else ())):
                raise ValueError(f'--against {shown(text)}: there is a matcher {shown(one)} '
                                 'already')
            others[one] = other
    return names, others


def changed(config: MatcherConfig, assignments: str) -> MatcherConfig:
    """A configuration with the changes of KEY=VALUE,..."""
    changes = parse_assignments(part for part in assignments.split(',') if part)
    return MatcherConfig.from_mapping({**config.to_mapping(), **changes})


def _preset(name: str, options: argparse.Namespace) -> MatcherConfig:
    """A preset to compare with: its own settings, on the same back end."""
    if name not in preset_names():
        raise ValueError(f'--against {shown(name)} is none of ' + ', '.join(baselines.NAMES)
                         + ', no preset (' + ', '.join(preset_names())
                         + '), and no NAME:KEY=VALUE')
    chosen = {'backend': options.backend} if options.backend else {}
    return MatcherConfig.preset(name).replace(**chosen)
