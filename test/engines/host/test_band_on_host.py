"""The kernels of a band search, run on the host, do what is defined."""

from __future__ import annotations

import ctypes
import shutil
from typing import Any

import numpy as np
import pytest

from test.cases import slow
from test.engines.support import naive_band
from test.engines.support.pairs import noisy_pair, parts_of

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.config.quantisation import NO_SECOND
from stereo_bp_ros.engines import geometry, partitions
from stereo_bp_ros.engines.cuda.band import matching, stage
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import edges
from stereo_bp_ros.engines.cuda.plan import plan_of
from stereo_bp_ros.engines.cuda.runtime import compiler
from stereo_bp_ros.engines.cuda.runtime.device import TYPICAL
from stereo_bp_ros.engines.cuda.stages import refine, right_labels
from stereo_bp_ros.engines.plan import first_pass_of
from test.engines.support.host_arena import HostArena
from test.engines.support.host_cuda import HostKernels

pytestmark = pytest.mark.skipif(shutil.which('g++') is None, reason='needs g++')

BAND: dict[str, Any] = {**MatcherConfig.preset('road').to_mapping(), 'disparity_range': 40}


def check(kernels: HostKernels, width: int, height: int, cut: tuple[int, int, int] | None = None,
          **changes: Any) -> None:
    """Labels and what refinement needs beside them, from a map with surfaces and holes."""
    config = MatcherConfig.from_mapping({**BAND, **changes})
    kernels.load(*stage.kernels(config, 'uint8'), edges.kernel('uint8'))
    left, right = map(np.ascontiguousarray, noisy_pair(width, height))
    random = np.random.default_rng(width)
    coarse_width, coarse_height = geometry.coarse_size(width, height)
    coarse_map = np.kron(random.integers(0, 16 * first_pass_of(config).disparity_range, (9, 12)),
                         np.ones((5, 5), int))[:coarse_height, :coarse_width].astype(np.int16)
    coarse_map[random.random(coarse_map.shape) < 0.05] = -16
    parts = parts_of(width, height, *cut) if cut else None
    expected = naive_band.match(left, right, coarse_map, config, parts)

    parts = parts or partitions.whole(width, height)
    arena = HostArena(plan_of(config, width, height, TYPICAL, parts=parts).memory)
    for name in ('label', 'right_keys'):
        arena.view(name).view(np.uint8)[...] = 0xff
    arena.view('coarse_final')[...] = coarse_map
    matching = stage.BandStage(Context(TYPICAL, config, width, height, arena), parts)
    matching.enqueue(0, 'uint8', left.ctypes.data, right.ctypes.data,
                     arena.device['coarse_final'], first_pass_of(config),
                     refine.steps(config, ('confidence',)), None)
    keys = arena.view('right_keys')
    offered = np.where(keys == np.uint64(2**64 - 1), -1, keys.astype(np.int64) & 0xffff)
    np.testing.assert_array_equal(offered, expected.right_label)
    for name in ('label', 'fraction'):
        np.testing.assert_array_equal(arena.view(name), getattr(expected, name), err_msg=name)
    best, second = arena.view('best'), arena.view('second')
    inside = expected.label >= 0
    lead = np.where(second == NO_SECOND, NO_SECOND, second - best)
    np.testing.assert_array_equal(lead[inside], expected.lead[inside])


@pytest.mark.parametrize(('size', 'cut', 'changes'), [
    ((71, 33), None, {}),
    ((64, 30), (2, 2, 3), {'min_disparity': -7, 'band_radius': 2, 'grey_weight': 0.3}),
    *slow(((90, 41), (3, 1, 1), {'min_disparity': 5, 'band_radius': 1, 'disparity_range': 8,
                                 'path_step_penalty': 0, 'path_jump_penalty': 255}),
          ((33, 20), None, {'discontinuity_edge_threshold': 0, 'discontinuity_first_step': 0.0,
                            'band_radius': 3}),
          ((5, 4), None, {}), ((2, 1), None, {}), ((1, 1), None, {}))])
def test_every_match_is_that_of_the_definition(
        size: tuple[int, int], cut: tuple[int, int, int] | None, changes: dict[str, Any],
        host_kernels: HostKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right_labels, 'enqueue', lambda *_: None)
    check(host_kernels, *size, cut, **changes)


@pytest.mark.slow
@pytest.mark.parametrize('size', [(72, 40), (61, 33)])
def test_both_passes_find_what_the_cpu_engine_finds(
        size: tuple[int, int], host_kernels: HostKernels, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip('numba')
    from test.engines.cpu.test_cpu_band import run
    # Regions of speckles need instructions that the host has not.
    config = MatcherConfig.from_mapping({**BAND, 'speckle_size': 0, 'min_disparity': -2})
    width, height = size
    left, right = map(np.ascontiguousarray, noisy_pair(width, height, nearer=12))
    plan = plan_of(config, width, height, TYPICAL)
    arena = HostArena(plan.memory)
    band = matching.Band.of(Context(TYPICAL, plan.config, width, height, arena), plan)
    host_kernels.load_apart(kernels_of(band))
    monkeypatch.setattr(right_labels, 'enqueue', take_right_labels)
    for name in ('label', 'right_keys', 'coarse_label', 'coarse_right_keys'):
        arena.view(name).view(np.uint8)[...] = 0xff
    arena.view('coarse_ended')[...] = 0
    arena.view('left_grey')[...], arena.view('right_grey')[...] = left, right
    parameters = refine.Parameters.from_buffer(arena.view('parameters')[2].data)
    parameters.fill(plan.passes[0], None)
    parameters.bind({'final': arena.device['coarse_final']})
    for address, values in band._matching._messages._constants.items():
        ctypes.memmove(address, values.ctypes.data, values.nbytes)
    band.enqueue(0, 'grey', True, refine.steps(config, ('confidence',)), refine.Frame())
    found = run(left, right, config.replace(backend='cpu'))
    for name in ('label', 'fraction', 'right_label'):
        np.testing.assert_array_equal(arena.view(name), found[name], err_msg=name)


def kernels_of(band: matching.Band) -> set[tuple[str, str]]:
    """Everything that images of 8 bits need and the host can run."""
    names = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, 'kernel', lambda _device, *name: names.add(name))
        band.load('grey', True)
    return {name for name in names
            if name[0] not in ('frame/right_labels.cu', 'frame/speckles.cu')}


def take_right_labels(_device: Any, _stream: int, arena: Any, _key: str) -> None:
    """As the kernel, which has more arguments than the host passes on."""
    count = arena.nbytes['right_keys'] // 8
    keys, labels = (
        np.frombuffer((ctypes.c_char * (size * count)).from_address(arena.device[name]), kind)
        for name, size, kind in (('right_keys', 8, np.uint64), ('right_label', 2, np.int16)))
    labels[:] = np.where(keys == np.uint64(2**64 - 1), -1, keys.astype(np.int64) & 0xffff)
    keys[:] = np.uint64(2**64 - 1)
