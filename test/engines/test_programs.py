"""Ways to match by name, and the plans that are made of them."""

from __future__ import annotations

import pytest

from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines import programs
from stereo_bp_ros.engines.cpu import plan as cpu
from stereo_bp_ros.engines.cpu.matching import CpuMatching
from stereo_bp_ros.engines.cuda import plan as cuda
from stereo_bp_ros.engines.cuda.hierarchical import schedule
from stereo_bp_ros.engines.cuda.matching import CudaMatching
from stereo_bp_ros.papers.programs import PROGRAMS

FACES = {'cuda': CudaMatching, 'cpu': CpuMatching}


@pytest.mark.parametrize(('backend', 'program', 'algorithm'), [
    *((backend, 'default', algorithm) for backend, algorithm in programs.DEFAULTS),
    *((backend, name, program.algorithm) for name, program in PROGRAMS.items()
      for backend in FACES)])
def test_every_program_is_a_way_to_match_of_its_back_end(backend, program, algorithm):
    config = (MatcherConfig.preset('road') if algorithm == 'band' else
              MatcherConfig(stereo_algorithm=algorithm, program=program))
    assert issubclass(programs.matching(backend, config), FACES[backend])


def test_a_program_without_a_class_for_a_back_end_is_the_defaults_there():
    default = MatcherConfig(stereo_algorithm='sad')
    streamed = default.replace(program='streamed_sad')
    assert programs.matching('cpu', streamed) is programs.matching('cpu', default)
    assert programs.matching('cuda', streamed) is not programs.matching('cuda', default)


def test_a_plan_is_computed_once(monkeypatch):
    asked = []
    launches = schedule.launches
    monkeypatch.setattr(schedule, 'launches', lambda *arguments: (
        asked.append(arguments), launches(*arguments))[1])
    config = MatcherConfig(disparity_range=23)
    first, second = (cuda.plan_of(config, 331, 227) for _ in range(2))
    assert first is second
    assert first.memory is second.memory
    assert len(asked) == 1
    assert cpu.plan_of(config, 331, 227) is cpu.plan_of(config, 331, 227)
