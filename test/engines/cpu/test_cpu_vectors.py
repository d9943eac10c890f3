"""Vectors of 64 bytes against NumPy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from test.cases import slow
from test.engines.support.pairs import noisy_pair

pytest.importorskip('numba')
from stereo_bp_ros import StereoMatcher
from stereo_bp_ros.engines.cpu.simd import VECTOR_BYTES, groups, runtime, target, vectors
from stereo_bp_ros.engines.cpu.simd.runtime import python_kernel

DTYPES = [np.uint16, np.float32]


@pytest.fixture(params=DTYPES, ids=lambda dtype: dtype.__name__)
def pair(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    """Two vectors' worth of values of either type."""
    rng = np.random.default_rng(3)
    count = VECTOR_BYTES // np.dtype(request.param).itemsize
    return tuple(rng.integers(0, 65536, (2, count)).astype(request.param))


@python_kernel
def _on_lanes(a: Any, b: Any, out: Any) -> None:
    count = a.size
    x, y = vectors.load(a, 0), vectors.load(b, 0)
    vectors.store(out, 0, x + y)
    vectors.store(out, count, x - y)
    vectors.store(out, 2 * count, vectors.minimum(x, y))
    vectors.store(out, 3 * count, vectors.where_less(x, y, vectors.splat(a[0]), y))
    vectors.store(out, 4 * count, vectors.where_lane(2, 5, x, y))
    vectors.store(out, 5 * count, vectors.following(x, y))
    vectors.store(out, 6 * count, vectors.preceding(y, x))
    low, high = vectors.interleave(x, y)
    vectors.store(out, 7 * count, low)
    vectors.store(out, 8 * count, high)
    even, odd = vectors.deinterleave(low, high)
    vectors.store(out, 9 * count, even)
    vectors.store(out, 10 * count, odd)
    vectors.store(out, 11 * count, x * y)


def test_lanes_are_numpys_elements(pair: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = pair
    out = np.zeros((12, a.size), a.dtype)
    _on_lanes(a, b, out.reshape(-1))
    lane = np.arange(a.size)
    both = np.stack([a, b], axis=1).reshape(2, -1)
    np.testing.assert_array_equal(out, [
        a + b, a - b, np.minimum(a, b), np.where(a < b, a[0], b),
        np.where((lane >= 2) & (lane < 5), a, b), np.append(a[1:], b[0]),
        np.append(a[-1], b[:-1]), *both, a, b, a * b])


@python_kernel
def _upper_product(a: Any, b: Any, out: Any) -> None:
    vectors.store(out, 0, vectors.upper_product(vectors.load(a, 0), vectors.load(b, 0)))


def test_the_upper_half_of_a_product_is_that_of_32_bits() -> None:
    a, b = np.random.default_rng(5).integers(0, 65536, (2, 32)).astype(np.uint16)
    a[:2] = b[:1] = 65535
    out = np.zeros_like(a)
    _upper_product(a, b, out)
    np.testing.assert_array_equal(out, a.astype(np.uint32) * b >> 16)


@python_kernel
def _copy_from(a: Any, offset: int, out: Any) -> None:
    vectors.store(out, offset, vectors.load(a, offset))


@pytest.mark.parametrize('dtype', DTYPES)
@pytest.mark.parametrize('offset', [0, 1, 7])
def test_any_alignment_is_read_and_written(dtype: Any, offset: int) -> None:
    count = VECTOR_BYTES // np.dtype(dtype).itemsize
    source = np.arange(3 * count).astype(dtype)
    out = np.zeros(3 * count, dtype)
    _copy_from(source, offset, out)
    expected = np.where((source >= offset) & (source < offset + count), source, 0)
    np.testing.assert_array_equal(out, expected)


@python_kernel
def _convert(source: Any, out: Any) -> None:
    for place in range(0, source.size, 16):
        vectors.store(out, place, vectors.load(source, place))


def halves_differ_from_numpys() -> list[str]:
    """Every float16, and float32 numbers of every size and kind of tie, there and back."""
    bits = np.arange(65536, dtype=np.uint16).view(np.int16)
    widened = np.empty(65536, np.float32)
    _convert(bits, widened)
    wrong = []
    if not np.array_equal(widened, bits.view(np.float16).astype(np.float32), equal_nan=True):
        wrong.append('widen')
    finite = np.sort(bits.view(np.float16)[np.isfinite(bits.view(np.float16))])
    ties = (finite[1:].astype(np.float32) + finite[:-1].astype(np.float32)) / 2
    random = np.random.default_rng(4).integers(0, 2**32, 2**20, np.uint32).view(np.float32)
    numbers = np.concatenate([
        widened, ties, np.nextafter(ties, np.float32(np.inf)),
        np.nextafter(ties, np.float32(-np.inf)), random])
    numbers = numbers[~np.isnan(numbers)]
    numbers = numbers[:numbers.size // 16 * 16].copy()
    narrowed = np.empty(numbers.size, np.int16)
    _convert(numbers, narrowed)
    with np.errstate(over='ignore'):
        expected = numbers.astype(np.float16).view(np.int16)
    return wrong if np.array_equal(narrowed, expected) else [*wrong, 'narrow']


def test_halves_are_numpys() -> None:
    assert halves_differ_from_numpys() == []


@python_kernel
def _picked(source: Any, numbers: Any, out: Any) -> None:
    values = vectors.load_bytes(vectors.address(source), 0)
    for start in range(0, numbers.size, VECTOR_BYTES):
        vectors.store_bytes(vectors.address(out), start, groups.picked(
            values, vectors.load_bytes(vectors.address(numbers), start)))


def picks_differ_from_numpys() -> list[str]:
    """Every number that a lane may have, in every lane."""
    values = np.random.default_rng(5).integers(1, 256, VECTOR_BYTES, np.uint8)
    numbers = np.repeat(np.arange(256).astype(np.uint8), VECTOR_BYTES)
    out = np.zeros_like(numbers)
    _picked(values, numbers, out)
    group = np.arange(numbers.size) % VECTOR_BYTES // groups.GROUP * groups.GROUP
    expected = np.where(numbers < groups.GROUP, values[group + numbers % groups.GROUP], 0)
    return [] if np.array_equal(out, expected) else ['picked']


def test_picked_lanes_are_numpys() -> None:
    assert picks_differ_from_numpys() == []


@pytest.mark.parametrize('variables', [
    {'NUMBA_CPU_NAME': 'generic'}, *slow({'NUMBA_CPU_FEATURES': ''}, {'NUMBA_ENABLE_AVX': '0'})],
    ids=lambda variables: next(iter(variables)))
def test_numbas_target_decides_which_instructions_there_are_and_vectors_stay_the_same(
        variables: dict[str, str], child: Callable[..., str]) -> None:
    wrong, instruction, described, engine = json.loads(child(
        'import json\n'
        'from stereo_bp_ros.engines.cpu.simd import groups, runtime, target\n'
        'from test.engines.cpu import test_cpu_vectors as test\n'
        'print(json.dumps([test.halves_differ_from_numpys() + test.picks_differ_from_numpys(),\n'
        '    groups.pick_instruction(), target.description(), runtime.compiler_hash()]))',
        **variables))
    assert wrong == []
    assert instruction != 'avx2'
    # Each target has a cache of its own.
    is_hosts = tuple(described) == target.description()
    assert (engine == runtime.compiler_hash()) == is_hosts


@pytest.mark.parametrize('preset', slow(
    'road', 'road_full', 'sad_fast', 'tsukuba_2019', 'indoor'))
def test_a_frame_has_the_same_bits_on_the_plainest_target(
        preset: str, child: Callable[..., str]) -> None:
    digest = child(f'from test.engines.cpu.test_cpu_vectors import digest_of\n'
                   f'print(digest_of({preset!r}))', NUMBA_CPU_NAME='generic')
    assert digest == digest_of(preset)


def digest_of(preset: str) -> str:
    """Of disparity and confidence of a small pair."""
    with StereoMatcher(preset, backend='cpu', num_threads=2) as matcher:
        frame = matcher.compute(*noisy_pair(160, 48, 7), outputs=('disparity', 'confidence'))
    assert frame.disparity is not None
    assert frame.confidence is not None
    assert frame.valid.any()
    return hashlib.sha256(frame.disparity.tobytes() + frame.confidence.tobytes()).hexdigest()
