"""What is computed, and on what: which settings go together, and what follows from them."""

from __future__ import annotations

import dataclasses
import operator
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.files import AUTO, NONE, load_preset
from stereo_bp_ros.config.matcher_settings import NOT_OF_PRESETS, MatcherSettings
from stereo_bp_ros.config.settings import Setting, Value, documented
from stereo_bp_ros.errors import ConfigError, ignored_codes, printable
from stereo_bp_ros.papers.programs import PROGRAMS, ProgramSettings

_Config = typing.TypeVar('_Config', bound='MatcherConfig')


@documented
@dataclasses.dataclass(frozen=True, repr=False)
class MatcherConfig(ProgramSettings, MatcherSettings):
    """What is computed, and on what: a name, its default, what it means and what it may be.

    :raises ConfigError: an unknown name, a rejected value or combination; the text names the
        limit.
    """

    def check(self) -> None:
        self._check_program()
        for is_wrong, name, limit in self._rules():
            if is_wrong:
                raise ConfigError(name, operator.attrgetter(name)(self), limit)
        if self.is_belief_propagation and self.message_type == 'int16':
            quantisation.message_scale(self)
        if self.stereo_algorithm == 'bp' and self.message_type == 'float16':
            quantisation.check_float16(self)
        if len(self._given_iterations) > self.levels:
            raise ConfigError('iterations', self.iterations,
                              f'must be at most levels ({self.levels}) numbers')
        ignored_codes(self.ignored_checks)

    def _rules(self) -> Iterator[tuple[bool, str, str]]:
        """Limits that involve more than one setting: whether it is broken, by what, and the limit.
        """
        algorithm, program = self.stereo_algorithm, self.program
        is_tiled, schedule = algorithm == 'tiled_bp', self.option('schedule', 'auto')
        yield (bool(self.rectified_width) != bool(self.rectified_height), 'rectified_height',
               f'rectified_width is {self.rectified_width}: set both, or neither')
        yield (0 < self.points_max_depth < self.points_min_depth, 'points_max_depth',
               f'must be 0 (off) or at least points_min_depth ({self.points_min_depth:g})')
        yield (self.median_window_size not in (0, 3, 5), 'median_window_size',
               'must be 0 (off), 3 or 5')
        yield (self.exact and self.message_type != 'float32', 'exact',
               f'needs message_type float32, which is {self.message_type}')
        yield (self.exact and self.row_correction == 'correct', 'row_correction',
               'the reference maps are those of images as they come: use off or measure')
        yield (is_tiled and self.message_type == 'float16', 'message_type',
               'tiled_bp has messages of int16 or float32')
        yield (is_tiled and self.exact, 'exact',
               'the reference maps are those of stereo_algorithm bp')
        yield (is_tiled and schedule == 'speculative' and self.inner_iterations > 1,
               'inner_iterations', f'{program}.schedule speculative has one: use rows or auto')
        yield (is_tiled and schedule in ('speculative', 'rows')
               and self.option('synchronisation', 'needed') == 'all',
               f'{program}.synchronisation', f'{program}.schedule {schedule} has several tiles at '
               'once in a block: use cooperative, lock_free or launches')
        is_hierarchical = algorithm == 'bp' and program == 'default'
        yield (isinstance(self.iterations, str) and not is_hierarchical, 'iterations',
               'a number for each level needs stereo_algorithm bp and program default')
        for name in ('discontinuity_first_step', 'census_weight', 'sparse_census_weight',
                     'sobel_weight', 'grey_weight', 'path_aggregation'):
            yield (getattr(self, name) != type(self).settings()[name].default and not (
                is_hierarchical and self.message_type == 'int16'), name,
                'needs stereo_algorithm bp, program default and message_type int16')
        yield (self.discontinuity_first_step > self.discontinuity_slope,
               'discontinuity_first_step',
               f'must be at most discontinuity_slope ({self.discontinuity_slope:g})')
        for name in ('path_aggregation', 'discontinuity_edge_threshold'):
            yield (bool(getattr(self, name)) and not self.has_combined_cost, name,
                   'needs a weight above 0 of census, sparse_census, sobel or grey')
        yield (self.discontinuity_edge_threshold > 0
               and self.discontinuity_edge_truncation > self.truncation,
               'discontinuity_edge_truncation',
               f'must be at most discontinuity_truncation ({self.truncation:g})')
        yield (self.path_step_penalty > self.path_jump_penalty, 'path_step_penalty',
               f'must be at most path_jump_penalty ({self.path_jump_penalty})')
        yield (self.band_radius > 0 and not (self.path_aggregation and self.levels == 1),
               'band_radius', 'needs path_aggregation and levels 1')
        yield (self.band_radius > 0 and self.iterations_of_levels != (2,), 'iterations',
               'band_radius needs 2')
        yield (self.band_radius > 0 and not quantisation.fits_band(self),
               'discontinuity_truncation', 'with band_radius must be at most '
               f'{quantisation.MAX_BAND_TRUNCATION}, and what a jump of four labels costs')
        yield (self.min_disparity % self.downscale != 0, 'min_disparity',
               f'must be a multiple of downscale ({self.downscale})')
        yield (self.disparity_range <= self.downscale, 'disparity_range',
               f'must be more than downscale ({self.downscale})')
        yield (algorithm == 'sad' and self.border == 'keep', 'border',
               'SAD has no result outside the valid window: use invalid')

    @property
    def _given_iterations(self) -> tuple[int, ...]:
        return tuple(map(int, str(self.iterations).split(',')))

    @property
    def iterations_of_levels(self) -> tuple[int, ...]:
        """Iterations of each level, level 0 first."""
        given = self._given_iterations
        return (given + (given[-1],) * self.levels)[:self.levels]

    @property
    def max_disparity(self) -> int:
        """The last disparity of the search, pixels."""
        steps = (self.disparity_range - 1) // self.downscale
        return self.min_disparity + self.downscale * steps

    def _check_program(self) -> None:
        """Reject a program of another algorithm, and settings of one that is not chosen."""
        program = PROGRAMS.get(self.program)
        if program and self.stereo_algorithm != program.algorithm:
            raise ConfigError('program', self.program,
                              f'it is one of stereo_algorithm {program.algorithm}, which is '
                              f'{self.stereo_algorithm}')
        for name, kind in self.nested().items():
            if name != self.program and getattr(self, name) != kind():
                raise ConfigError(name, getattr(self, name), f'program is {self.program}')

    @classmethod
    def settings_of(cls, program: str) -> Mapping[str, Setting]:
        """The settings that count where ``program`` is so: all but those of other programs."""
        return {name: setting for name, setting in cls.settings().items()
                if name.rpartition('.')[0] in ('', program)}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> MatcherConfig:
        """Build from names and values; those of a program only where ``program`` names it.

        :raises ConfigError: an unknown name, a rejected value or a rejected combination.
        """
        if not isinstance(values, Mapping):
            raise ConfigError('values', values, 'must be a mapping of settings to their values')
        program = values.get('program', 'default')
        for name, value in values.items():
            owner = name.rpartition('.')[0] if name in cls.settings() else ''
            if owner and owner != program:
                raise ConfigError(name, value, f'it belongs to program {owner}, and program is '
                                  f'{printable(program)}')
        return typing.cast(MatcherConfig, super().from_mapping(values))

    def to_mapping(self) -> dict[str, Value]:
        """Every setting that counts with this program, in the order of declaration."""
        values, known = super().to_mapping(), self.settings_of(self.program)
        return {name: values[name] for name in known}

    def replace(self: _Config, **changes: Any) -> _Config:
        """A copy with some settings changed; another program begins with its defaults.

        :raises ConfigError: as ``from_mapping``.
        """
        values = self.to_mapping()
        program = self.settings()['program'].coerce(changes.get('program', self.program))
        if program != self.program:
            values = {name: values[name] for name in self.settings_of('default')}
        return typing.cast(_Config, self.from_mapping({**values, **changes}))

    def is_live_change(self, other: MatcherConfig) -> bool:
        """Whether going from one configuration to the other needs no new engine."""
        known = self.settings()
        return all(known[name].live for name in self.differences(other))

    @classmethod
    def preset(cls, name: str, **changes: Any) -> MatcherConfig:
        """A shipped set of settings by name (``preset_names()``), with some changed.

        :raises ConfigError: there is no preset of this name, or a change is rejected.
        """
        return cls.from_mapping({**load_preset(name), **changes})


ResolvedConfig = typing.NewType('ResolvedConfig', MatcherConfig)
"""What a pass over the matched images runs, made by ``Backend.resolve`` alone: for reduced images,
by the program that computes it on the device. Below a plan there is no other.
"""


def is_of_presets(name: str) -> bool:
    """Whether a setting says how is matched, so that presets provide it."""
    return name in MatcherConfig.settings() and name not in NOT_OF_PRESETS


def default_preset(given: Iterable[str]) -> str:
    """The preset where none is named: ``none`` beside settings of matching, else ``auto``.

    :param given: names of the settings that are set.
    """
    return NONE if any(map(is_of_presets, given)) else AUTO


def provided_by(preset: str) -> dict[str, Value]:
    """Every setting that a preset provides: its own, and the defaults of the others.

    :raises ConfigError: there is no preset of this name.
    """
    return {name: value for name, value in MatcherConfig.preset(preset).to_mapping().items()
            if is_of_presets(name)}
