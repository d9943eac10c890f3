"""What is computed, and on what: which settings go together, and what follows from them."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.config import quantisation
from stereo_bp_ros.config.files import load_preset
from stereo_bp_ros.config.matcher_settings import MatcherSettings
from stereo_bp_ros.config.settings import Setting, Value
from stereo_bp_ros.errors import ConfigError, ignored_keys, printable
from stereo_bp_ros.papers.programs import PROGRAMS, ProgramSettings

_Config = typing.TypeVar('_Config', bound='MatcherConfig')


@dataclasses.dataclass(frozen=True)
class MatcherConfig(ProgramSettings, MatcherSettings):
    """What is computed, and on what. See ``docs/reference/parameters.md`` for the table.

    :raises ConfigError: a value or a combination is refused; the text names it and the limit.
    """

    def check(self) -> None:
        self._check_program()
        if bool(self.rectified_width) != bool(self.rectified_height):
            raise ConfigError('rectified_height', self.rectified_height,
                              f'rectified_width is {self.rectified_width}: set both, or neither')
        if 0 < self.points_max_depth < self.points_min_depth:
            raise ConfigError('points_max_depth', self.points_max_depth,
                              'must be 0 (off) or at least points_min_depth '
                              f'({self.points_min_depth:g})')
        if self.median_window_size not in (0, 3, 5):
            raise ConfigError('median_window_size', self.median_window_size,
                              'must be 0 (off), 3 or 5')
        if self.exact and self.message_type != 'float32':
            raise ConfigError('exact', self.exact,
                              f'needs message_type float32, which is {self.message_type}')
        if self.is_belief_propagation and self.message_type == 'int16':
            quantisation.message_scale(self)
        if self.stereo_algorithm == 'bp' and self.message_type == 'float16':
            quantisation.check_float16(self)
        if self.stereo_algorithm == 'tiled_bp':
            self._check_tiles()
        self._check_hierarchy()
        self._check_downscale()
        ignored_keys(self.ignored_checks)
        if self.stereo_algorithm == 'sad' and self.border == 'keep':
            raise ConfigError('border', self.border,
                              'SAD has no result outside the valid window: use invalid')

    @property
    def iterations_of_levels(self) -> tuple[int, ...]:
        """Iterations of each level, level 0 first."""
        given = self._level_iterations() or (self.iterations,)
        return (given + (given[-1],) * self.levels)[:self.levels]

    def _level_iterations(self) -> tuple[int, ...]:
        words = [word.strip() for word in self.level_iterations.split(',')]
        if words == ['']:
            return ()
        if not all(word.isdecimal() and int(word) <= 1000 for word in words):
            raise ConfigError('level_iterations', self.level_iterations,
                              'must be whole numbers from 0 to 1000 with commas between them')
        if len(words) > self.levels:
            raise ConfigError('level_iterations', self.level_iterations,
                              f'must be at most levels ({self.levels}) numbers')
        return tuple(map(int, words))

    def _check_hierarchy(self) -> None:
        """Refuse what only hierarchical belief propagation in whole numbers has."""
        self._level_iterations()
        is_hierarchical = self.stereo_algorithm == 'bp' and self.program == 'default'
        if self.level_iterations and not is_hierarchical:
            raise ConfigError('level_iterations', self.level_iterations,
                              'needs stereo_algorithm bp and program default')
        for name in ('discontinuity_first_step', 'census_weight', 'sobel_weight',
                     'grey_weight', 'residual_weight', 'path_sums'):
            value = getattr(self, name)
            if value != type(self).settings()[name].default and not (
                    is_hierarchical and self.message_type == 'int16'):
                raise ConfigError(name, value, 'needs stereo_algorithm bp, program default and '
                                  'message_type int16')
        if self.discontinuity_first_step > self.discontinuity_slope:
            raise ConfigError('discontinuity_first_step', self.discontinuity_first_step,
                              'must be at most discontinuity_slope '
                              f'({self.discontinuity_slope:g})')
        if self.path_sums and not self.has_combined_cost:
            raise ConfigError('path_sums', self.path_sums, 'needs a weight above 0 of census, '
                              'sobel, grey or residual')
        if self.discontinuity_edge_threshold:
            if not self.has_combined_cost:
                raise ConfigError('discontinuity_edge_threshold',
                                  self.discontinuity_edge_threshold, 'needs a weight above 0 of '
                                  'census, sobel, grey or residual')
            if self.discontinuity_edge_truncation > self.truncation:
                raise ConfigError('discontinuity_edge_truncation',
                                  self.discontinuity_edge_truncation, 'must be at most '
                                  f'discontinuity_truncation ({self.truncation:g})')
        if self.path_step_penalty > self.path_jump_penalty:
            raise ConfigError('path_step_penalty', self.path_step_penalty,
                              f'must be at most path_jump_penalty ({self.path_jump_penalty})')

    @functools.cached_property
    def reduced(self) -> MatcherConfig:
        """The configuration that images reduced by ``downscale`` are matched with."""
        if self.downscale == 1:
            return self
        return self.replace(downscale=1, min_disparity=self.min_disparity // self.downscale,
                            disparity_range=-(-self.disparity_range // self.downscale),
                            color_range=self.colored_range)

    @property
    def max_disparity(self) -> int:
        """The last disparity of the search, pixels."""
        steps = (self.disparity_range - 1) // self.downscale
        return self.min_disparity + self.downscale * steps

    @property
    def colored_range(self) -> int:
        """``color_range``, with 0 resolved to that of the search, pixels."""
        return self.color_range or self.max_disparity - self.min_disparity

    def _check_downscale(self) -> None:
        if self.min_disparity % self.downscale:
            raise ConfigError('min_disparity', self.min_disparity,
                              f'must be a multiple of downscale ({self.downscale})')
        if self.disparity_range <= self.downscale:
            raise ConfigError('disparity_range', self.disparity_range,
                              f'must be more than downscale ({self.downscale})')

    def _check_program(self) -> None:
        """Refuse a program of another algorithm, and settings of one that is not chosen."""
        program = PROGRAMS.get(self.program)
        if program and self.stereo_algorithm != program.algorithm:
            raise ConfigError('program', self.program,
                              f'it is one of stereo_algorithm {program.algorithm}, which is '
                              f'{self.stereo_algorithm}')
        for name, kind in self.nested().items():
            if name != self.program and getattr(self, name) != kind():
                raise ConfigError(name, getattr(self, name), f'program is {self.program}')

    def _check_tiles(self) -> None:
        """Refuse what tiled belief propagation has not, with a ``ConfigError``."""
        if self.message_type == 'float16':
            raise ConfigError('message_type', self.message_type,
                              'tiled_bp has messages of int16 or float32')
        if self.exact:
            raise ConfigError('exact', self.exact,
                              'the reference maps are those of stereo_algorithm bp')
        schedule = self.option('schedule', 'auto')
        if schedule == 'speculative' and self.inner_iterations > 1:
            raise ConfigError('inner_iterations', self.inner_iterations,
                              f'{self.program}.schedule speculative has one: use rows or auto')
        if (self.option('synchronisation', 'needed') == 'all'
                and schedule in ('speculative', 'rows')):
            raise ConfigError(f'{self.program}.synchronisation', 'all',
                              f'{self.program}.schedule {schedule} has several tiles at once in a '
                              'block: use cooperative, lock_free or launches')

    @classmethod
    def settings_of(cls, program: str) -> Mapping[str, Setting]:
        """The settings that count where ``program`` is so: all but those of other programs."""
        return {name: setting for name, setting in cls.settings().items()
                if name.rpartition('.')[0] in ('', program)}

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> MatcherConfig:
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
        if changes.get('program', self.program) != self.program:
            values = {name: values[name] for name in self.settings_of('default')}
        return typing.cast(_Config, self.from_mapping({**values, **changes}))

    def is_live_change(self, other: MatcherConfig) -> bool:
        """Whether going from one configuration to the other needs no new engine."""
        known = self.settings()
        return all(known[name].live for name in self.differences(other))

    @classmethod
    def preset(cls, name: str, **changes: Any) -> MatcherConfig:
        """A shipped set of settings by name (``preset_names()``), with some changed.

        :raises ConfigError: there is no preset of this name, or a change is refused.
        """
        return cls.from_mapping({**load_preset(name), **changes})


ResolvedConfig = typing.NewType('ResolvedConfig', MatcherConfig)
"""What a back end matches with, made by its ``resolve`` alone: for images as they are reduced, by
the program that computes it on the device. What is below a plan takes no other.
"""
