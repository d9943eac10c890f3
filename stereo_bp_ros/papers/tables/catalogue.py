"""Every table and figure that is measured, in the papers' order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from stereo_bp_ros.papers.tables import (
    ai_2009,
    gpu_cpu,
    lcpc_2010,
    lcpc_2010_walk,
    sad,
    thesis_2019,
)
from stereo_bp_ros.papers.tables.bench import Bench
from stereo_bp_ros.papers.tables.published import ai_2009 as published_ai_2009
from stereo_bp_ros.papers.tables.published import gpu_cpu as published_gpu_cpu
from stereo_bp_ros.papers.tables.published import lcpc_2010 as published_lcpc_2010
from stereo_bp_ros.papers.tables.published import sad as published_sad
from stereo_bp_ros.papers.tables.published import thesis_2019 as published_thesis_2019
from stereo_bp_ros.papers.tables.results import Measurement, Published, Result

#: Keys of the papers to what they are called.
PAPERS: Mapping[str, str] = {
    'lcpc_2010': 'Grauer-Gray & Cavazos, Optimizing and Auto-tuning Belief Propagation on the GPU '
                 '(LCPC 2010)',
    'thesis_2019': 'Kotsifakou, A GPU Implementation of Tiled Belief Propagation on Markov Random '
                   'Fields (2019; MEMOCODE 2013)',
    'ai_2009': 'Xu, Chen, Klette, Liu & Vaudrey, Belief Propagation Implementation Using CUDA on '
               'an NVIDIA GTX 280 (AI 2009)',
    'gpu_cpu': 'Grauer-Gray, Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs',
    'sad': 'Pudpai, Kim & Liu, Data Stream Optimization of Sum of Absolute Differences Algorithm '
           'on a Graphics Processing Unit'}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A published table, and what measures it."""

    published: Published
    measure: Callable[[Bench], Measurement]

    def run(self, bench: Bench) -> Result:
        """Measure on the devices of a bench."""
        return Result(self.published, self.measure(bench))


EXPERIMENTS = tuple(Experiment(*pair) for pair in (
    (published_lcpc_2010.TABLE_1, lcpc_2010.table_1),
    (published_lcpc_2010.FIGURE_3, lcpc_2010.figure_3),
    (published_lcpc_2010.TABLE_2, lcpc_2010.table_2),
    (published_lcpc_2010.FIGURE_4, lcpc_2010_walk.figure_4),
    (published_lcpc_2010.TABLE_3, lcpc_2010_walk.table_3),
    (published_lcpc_2010.TABLE_4, lcpc_2010_walk.table_4),
    (published_thesis_2019.TABLE_5_2, thesis_2019.table_5_2),
    (published_thesis_2019.TABLE_5_3, thesis_2019.table_5_3),
    (published_ai_2009.TIMES, ai_2009.times),
    (published_ai_2009.PREPROCESSING, ai_2009.preprocessing),
    (published_ai_2009.MEMORY, ai_2009.memory),
    (published_gpu_cpu.TABLE_1, gpu_cpu.table_1),
    (published_gpu_cpu.TABLE_2, gpu_cpu.table_2),
    (published_gpu_cpu.TABLE_3, gpu_cpu.table_3),
    (published_gpu_cpu.TABLE_4, gpu_cpu.table_4),
    (published_gpu_cpu.TABLE_5, gpu_cpu.table_5),
    (published_gpu_cpu.TABLE_6, gpu_cpu.table_6),
    (published_gpu_cpu.TABLE_7, gpu_cpu.table_7),
    (published_gpu_cpu.TABLE_8, gpu_cpu.table_8),
    (published_gpu_cpu.TABLE_9, gpu_cpu.table_9),
    (published_gpu_cpu.TABLE_10, gpu_cpu.table_10),
    (published_gpu_cpu.TABLE_11, gpu_cpu.table_11),
    (published_gpu_cpu.TABLE_12, gpu_cpu.table_12),
    (published_gpu_cpu.TABLE_13, gpu_cpu.table_13),
    (published_sad.FIGURE_8, sad.figure_8),
    (published_sad.FIGURE_9, sad.figure_9)))


def select(papers: Sequence[str] = (), numbers: Sequence[str] = ()) -> tuple[Experiment, ...]:
    """The experiments of some papers with some numbers; an empty sequence names all.

    :param numbers: such as 'table 2', 'figure 3' or 'times'; '3' is table 3 and figure 3.
    :raises ValueError: there is no such table.
    """
    chosen = tuple(one for one in EXPERIMENTS if not papers or one.published.paper in papers)
    known = tuple(dict.fromkeys(one.published.number for one in chosen))
    wanted = {name for number in numbers
              for name in (number, f'table {number}', f'figure {number}')}
    for number in numbers:
        if not {number, f'table {number}', f'figure {number}'} & set(known):
            raise ValueError(f'--table is {number!r}, but must be one of ' + ', '.join(known))
    return tuple(one for one in chosen if not numbers or one.published.number in wanted)
