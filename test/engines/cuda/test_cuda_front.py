"""The front end of a frame on a GPU: upload, conversion, preprocessing and data cost."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig, RawImage
from stereo_bp_ros.engines import partitions
from stereo_bp_ros.engines.cuda import engine as cuda
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.hierarchical import cost, cost_formats, formats
from stereo_bp_ros.engines.cuda.hierarchical.cost_formats import CostFormat
from stereo_bp_ros.engines.cuda.hierarchical.formats import MessageFormat
from stereo_bp_ros.engines.cuda.plan import resolve
from stereo_bp_ros.engines.cuda.runtime import device
from stereo_bp_ros.engines.cuda.stages import convert, preprocess
from stereo_bp_ros.images.raw_images import ENCODINGS
from test.engines.support import device_memory
from test.engines.support.pairs import random_raw

pytestmark = pytest.mark.gpu


def noise(width: int, height: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    left, right = rng.integers(0, 256, (2, height, width), dtype=np.uint8)
    # Neighbouring values, too: below the truncation.
    right[::2] = left[::2] // 2 + rng.integers(0, 9, left[::2].shape, dtype=np.uint8)
    return left, right


class Memory(device_memory.Memory):
    """That of an engine, without one; reads data costs."""

    def costs(self, k: int, name: str) -> np.ndarray:
        """Data cost of a level, H x W x D, from the layout that ``kernels/README.md`` draws.

        :param name: its type.
        """
        config = self.config
        kind = {'Bytes': np.uint8, 'Multiples': np.uint8, 'Nibbles': np.uint32, 'Int16': np.uint16,
                'MultipleSums': np.uint16, 'Float32': np.float32}[name]
        level = formats.levels(config, self.width, self.height)[k]
        chunks = MessageFormat.of(config).chunks
        per_unit = 4 if kind is np.float32 else 8
        values = self.get(f'cost_{k}').reshape(-1).view(kind)
        if kind is np.uint32:
            places = np.array([0, 16, 4, 20, 8, 24, 12, 28])
            units = values[:level.height * 2 * chunks * level.columns]
            values = (units[:, None] >> places & 15) * cost_formats.packed(config).factor
        if name in ('Multiples', 'MultipleSums'):
            units = values[:level.height * 2 * 8 * chunks * level.columns]
            values = units * np.float32(cost_formats.real_factor(config))
        values = values.reshape(level.height, 2, 8 * chunks // per_unit, level.columns, per_unit)
        values = values.transpose(0, 1, 3, 2, 4).reshape(level.height, 2, level.columns,
                                                         4 * chunks, 2)
        ordered = np.concatenate([values[..., 0], values[..., ::-1, 1]], axis=-1)
        y, x = np.mgrid[:level.height, :level.width]
        found = ordered[y, (x + y) % 2, x // 2]
        assert not found[..., max(config.disparity_range, 4 * chunks):].any()
        return found[..., :config.disparity_range]


def naive_costs(config: MatcherConfig, left: np.ndarray, right: np.ndarray) -> list[np.ndarray]:
    """As ``docs/explanation/algorithms.md`` has them: the costs of every level, H x W x D."""
    height, width = left.shape
    kind = np.float64 if config.message_type == 'int16' else np.float32
    factor = kind(cost_formats.real_factor(config))
    level = np.zeros((height, width, config.disparity_range), np.float32)
    first, last = config.min_disparity, config.min_disparity + config.disparity_range - 1
    for x in range(max(0, last), min(width, width + first)):
        for label in range(config.disparity_range):
            difference = np.abs(left[:, x].astype(kind) - right[:, x - first - label].astype(kind))
            found = factor * np.minimum(difference, kind(config.data_truncation))
            level[:, x, label] = np.floor(found + 0.5) if kind is np.float64 else found
    pyramid = [level]
    for _ in range(config.levels - 1):
        child = np.pad(pyramid[-1], ((0, level.shape[0] % 2), (0, level.shape[1] % 2), (0, 0)))
        level = ((child[::2, ::2] + child[::2, 1::2]) + child[1::2, ::2]) + child[1::2, 1::2]
        pyramid.append(level)
    return pyramid


def check_costs(config: MatcherConfig, width: int, height: int, kind: str,
                images: tuple[np.ndarray, ...] | None = None, base: str | None = None) -> None:
    """:param images: as they are matched, of whole grey values; None = any, of the type.

    :param base: type of the cost of level 0, where it is not that of images of any type.
    """
    found = Memory(config, width, height)
    has_whole_grey = images is not None or kind == 'uint8'
    if images is None:
        images = noise(width, height)
        if kind == 'float':
            images = tuple(np.float32(image) / 4 - np.float32(20.1) for image in images)
    name = 'grey' if kind == 'uint8' else 'values'
    for side, image in zip(('left', 'right'), images, strict=True):
        found.put(f'{side}_{name}', image)
    uncut = partitions.whole(width, height)
    stage = cost.Cost(Context(device.properties(0), config, width, height, found.arena), uncut)
    if config.message_type == 'int16':
        found.put('table', cost_formats.table(config))
    stage.load(kind, has_whole_grey, base)
    stage.enqueue(found.stream.ptr, kind, has_whole_grey, *(
        found.arena.device[f'{side}_{name}'] for side in ('left', 'right')),
        uncut.partitions[0], None, base)
    for k, expected in enumerate(naive_costs(config, *images)):
        # The sums of Multiples are rounded once.
        np.testing.assert_allclose(found.costs(k, CostFormat.of(config, k, base).name), expected,
                                   rtol=1e-6 if k and base == 'Multiples' else 0)
    found.arena.close()


COSTS: tuple[dict[str, Any], ...] = (
    {'data_weight': 0.1, 'data_truncation': 15.0},                  # bytes
    {'data_weight': 0.1, 'data_truncation': 15.3},                  # bytes of a table
    {'data_weight': 2.0, 'data_truncation': 200.0, 'levels': 2},    # 16 bits
    {'message_type': 'float32', 'levels': 4}, {'min_disparity': -9},
    {'min_disparity': -700}, {'levels': 1}, {'levels': 7})
#: Costs of images of 8 bits beside those of any: width, height, labels.
NIBBLES = ((71, 37, 33), (161, 34, 77), (265, 49, 128))
MULTIPLES = ((33, 16, 2), (71, 37, 21), (161, 34, 77), (265, 49, 128), (630, 21, 512))


@pytest.mark.parametrize(('changes', 'size', 'kind', 'base'), [
    *(({'discontinuity_slope': 1.0, 'discontinuity_truncation': 1.0, 'min_disparity': 3,
        **changes}, size, kind, None) for changes in COSTS for kind in ('uint8', 'float')
      for size in ((71, 37, 21), (33, 16, 2), (16, 17, 8), (161, 34, 77), (65, 49, 64))),
    *(({'message_type': message_type, 'min_disparity': -100}, (630, 21, disparities), kind, None)
      for message_type in ('int16', 'float32') for disparities in (128, 300, 512)
      for kind in ('uint8', 'float')),
    # Sums of four fit a byte, or do not.
    *(({'data_weight': weight, 'data_truncation': 15.0, 'levels': levels}, size, 'uint8',
       'Nibbles') for weight, levels in ((0.1, 3), (0.3, 2)) for size in NIBBLES),
    # 16 bits hold the sums of 1024 pixels.
    *(({'data_weight': 0.07, 'data_truncation': truncation, 'levels': 6, 'min_disparity': 2,
        'message_type': 'float32'}, size, 'uint8', 'Multiples')
      for truncation in (15.0, 63.0) for size in MULTIPLES)], ids=str)
def test_costs_equal_their_definition(changes: dict[str, Any], size: tuple[int, int, int],
                                      kind: str, base: str | None) -> None:
    width, height, disparities = size
    config = MatcherConfig(**{'preprocessing': 'none', 'disparity_range': disparities, **changes})
    check_costs(config, width, height, kind, base=base)


@pytest.mark.parametrize('changes', [
    {}, {'prefilter_cap': 0.0}, {'levels': 2, 'data_weight': 3.0, 'data_truncation': 100.0}])
def test_costs_of_derivatives_in_float32_equal_those_in_float64(changes: dict[str, Any]) -> None:
    config = MatcherConfig(disparity_range=21, **changes)
    assert cost.way(config, 'float', True) == 'IN_FLOAT32'
    assert cost.way(config, 'float', False) == 'IN_FLOAT64'
    images = []
    for image in noise(90, 37):
        derivative = np.float32(cv2.Sobel(image, cv2.CV_32F, 1, 0) * config.sobel_scale)
        cap = config.prefilter_cap or np.inf
        images.append(np.clip(derivative, -cap, cap))
    check_costs(config, 90, 37, 'float', tuple(images))


def cpu_grey(raw: RawImage, config: MatcherConfig) -> np.ndarray:
    """Grey values as the CPU engine has them."""
    pytest.importorskip('numba')
    from stereo_bp_ros.engines.cpu import scratch
    from stereo_bp_ros.engines.cpu.stages import convert as on_cpu
    grey = np.empty((raw.height, raw.width), np.float32)
    on_cpu.to_grey(raw, grey, config.mono16_scale, {
        name: np.empty(shape, kind)
        for name, shape, kind in scratch.convert(raw.width, raw.height)})
    return grey[:, ::-1] if config.reference_image == 'right' else grey


def pinned_copy(raw: RawImage) -> RawImage:
    """The same image in pinned memory, which lives as long as its data."""
    import cupy
    data = np.frombuffer(raw.data, np.uint8)
    there = np.frombuffer(cupy.cuda.alloc_pinned_memory(data.size), np.uint8, data.size)
    there[:] = data
    return RawImage(there, raw.height, raw.width, raw.step, raw.encoding, raw.big_endian)


def converted(config: MatcherConfig, left: RawImage, right: RawImage, is_told: bool = False
              ) -> tuple[str, np.ndarray, np.ndarray]:
    """Name and both images of the grey values that the device makes of the bytes.

    :param is_told: where pinned images lie is an argument of the kernel.
    """
    found = Memory(config, left.width, left.height)
    stage = convert.Convert(found.context, found.context[2:4], 1)
    addresses = [convert.pinned_address(raw) for raw in (left, right)]
    for name, raw in zip(('left_raw', 'right_raw'), (left, right), strict=True):
        convert.stage(raw, found.arena.host[name])
        if all(addresses):
            found.arena.host[name].fill(77)         # nothing is to be read there
    sources = convert.STAGED
    if all(addresses):
        sources = (addresses[0], addresses[1]) if is_told else convert.ANYWHERE
    if not is_told:
        found.arena.host['sources'][:] = addresses
    readings = convert.reading(left), convert.reading(right)
    stage.load()
    stage.enqueue_upload(found.stream.ptr, readings, sources, 0)
    stage.enqueue(found.stream.ptr, readings, 0)
    grey = stage.grey(readings)
    images = found.get(f'left_{grey}'), found.get(f'right_{grey}')
    found.arena.close()
    return grey, *images


@pytest.mark.parametrize('reference', ['left', 'right'])
@pytest.mark.parametrize('padding', [0, 1, 6])
@pytest.mark.parametrize(('left', 'right'), [
    *((encoding, encoding) for encoding in sorted(ENCODINGS)), ('mono8', 'rgb8'),
    ('mono16', 'mono8'), ('bayer_gbrg8', 'mono16'), ('bayer_rggb16', 'nv24')])
def test_grey_values_equal_those_of_the_cpu_engine(left: str, right: str, padding: int,
                                                   reference: str) -> None:
    config = MatcherConfig(disparity_range=2, levels=1, reference_image=reference,
                           mono16_scale=0.0039)
    has_wide = any(ENCODINGS[encoding].bits == 16 for encoding in (left, right))
    for width, height in ((34, 19), (16, 16), (130, 47)):
        for big_endian in (False, True):
            pair = [random_raw(encoding, width, height, seed, padding, big_endian)
                    for seed, encoding in enumerate((left, right))]
            kind, *images = converted(config, *pair)
            assert kind == ('values' if has_wide else 'grey')
            for image, raw in zip(images, pair, strict=True):
                np.testing.assert_array_equal(image, cpu_grey(raw, config))


@pytest.mark.parametrize('is_told', [False, True])
@pytest.mark.parametrize('encoding', ['mono8', 'mono16', 'rgb8'])
def test_images_in_pinned_memory_are_read_where_they_lie(encoding: str, is_told: bool) -> None:
    config = MatcherConfig(disparity_range=2, levels=1)
    pair = [random_raw(encoding, 64, 33, seed, 0) for seed in (1, 2)]
    pinned = [pinned_copy(raw) for raw in pair]
    assert [convert.pinned_address(raw) for raw in pair] == [0, 0]
    for raw in pinned:
        assert convert.pinned_address(raw) == raw.data.ctypes.data
    _, *images = converted(config, *pinned, is_told)
    for image, raw in zip(images, pair, strict=True):
        np.testing.assert_array_equal(image, cpu_grey(raw, config))


def test_pinned_images_and_outputs_may_come_again_and_change() -> None:
    width, height = 64, 48
    config = MatcherConfig(disparity_range=8, levels=2, iterations=2)
    engine = cuda.CudaEngine.of(config, width, height)
    ordinary = cuda.CudaEngine.of(config, width, height)
    pairs = [[pinned_copy(random_raw('mono8', width, height, seed + side, 0))
              for side in (0, 1)] for seed in range(0, 24, 2)]
    targets = [{'disparity': np.empty((height, width), np.float32)},
               {'disparity': np.zeros((height, width), np.float32),
                'depth': np.empty((height, width), np.float32)},
               {'disparity': pinned_output(height, width)},
               {'disparity': pinned_output(height, width)}]
    generator = np.random.default_rng(5)
    # The same pair over and over, two in turn, more than an engine keeps graphs for, others.
    order = [0, 0, 0, 1, 0, 1, 0, 1, *range(12), *range(12), *range(12), *[5, 6] * 40, 9, 9, 0]
    for i, number in enumerate(order):
        left, right = pairs[number]
        left.data[:] = generator.integers(0, 256, left.data.size)
        out = targets[i // 3 % len(targets)]
        for array in out.values():
            array.fill(-7.0)
        if i == 70:
            passes = resolve(config.replace(uniqueness_ratio=1.0), engine.plan.device)
            engine.update(passes)
            ordinary.update(passes)
        engine.compute(left, right, None, out)
        copies = [RawImage(raw.data.copy(), height, width, width, 'mono8')
                  for raw in (left, right)]
        expected = {name: np.empty((height, width), np.float32) for name in out}
        ordinary.compute(*copies, None, expected)
        for name, array in out.items():
            assert np.array_equal(array, expected[name], equal_nan=True)
    assert 2 < len(engine._graphs) < 30
    engine.close()
    ordinary.close()


def pinned_output(height: int, width: int) -> np.ndarray:
    """An array that the device writes itself."""
    import cupyx
    return cupyx.empty_pinned((height, width), np.float32)


PREPROCESSING: tuple[dict[str, Any], ...] = (
    {'preprocessing': 'sobel_x'},
    {'preprocessing': 'sobel_x', 'prefilter_cap': 0.0, 'sobel_scale': 0.3},
    {'preprocessing': 'sobel', 'sobel_scale': 1.0, 'prefilter_cap': 200.0},
    {'preprocessing': 'residual'}, {'preprocessing': 'residual', 'residual_window_size': 51},
    {'preprocessing': 'residual', 'residual_iterations': 3, 'residual_window_size': 5},
    {'preprocessing': 'none'})


@pytest.mark.parametrize('sigma', [0.0, 0.7, 10.0])
@pytest.mark.parametrize('changes', PREPROCESSING, ids=str)
@pytest.mark.parametrize('grey', ['grey', 'values'])
@pytest.mark.parametrize('window', [1, 51])
def test_matched_images_and_texture_agree_with_the_cpu_engine(
        grey: str, changes: dict[str, Any], sigma: float, window: int) -> None:
    pytest.importorskip('numba')
    from stereo_bp_ros.engines.cpu.stages import preprocess as on_cpu
    config = MatcherConfig(**{'disparity_range': 2, 'levels': 1, 'smoothing_sigma': sigma,
                              'correlation_window_size': window, **changes})
    # OpenCV's magnitude may be off by the last bit of its square root.
    is_whole = grey == 'grey' and sigma == 0 and config.residual_iterations == 1
    is_exact = is_whole and config.preprocessing != 'sobel'
    for width, height in ((71, 37), (16, 19)):
        found = Memory(config, width, height)
        images = noise(width, height)
        if grey == 'values':
            images = tuple(np.float32(image) * np.float32(0.7) for image in images)
        for side, image in zip(('left', 'right'), images, strict=True):
            found.put(f'{side}_{grey}', image)
        stage = preprocess.Preprocess(found.context)
        stage.load()
        stage.enqueue(found.stream.ptr, grey, True, False, 0)
        scratch = {'plane_a': np.empty((height, width), np.float32)}
        for side, image in zip(('left', 'right'), images, strict=True):
            smoothed, matched, derivative = np.empty((3, height, width), np.float32)
            on_cpu.preprocess(image.astype(np.float32), config, smoothed, matched, scratch)
            result = found.get(f'{side}_{stage.result(grey)}')
            check_close(result, matched, is_exact)
            if side == 'left':
                on_cpu.sobel_x(smoothed, config, derivative)
                expected = cv2.boxFilter(np.abs(derivative), -1, (window, window),
                                         normalize=False, borderType=cv2.BORDER_REPLICATE)
                check_close(found.get('texture'), expected,
                            is_whole and config.sobel_scale == 0.25)
        found.arena.close()


def check_close(found: np.ndarray, expected: np.ndarray, exactly: bool) -> None:
    if exactly:
        np.testing.assert_array_equal(found, expected)
    else:
        np.testing.assert_allclose(found, expected, rtol=0,
                                   atol=1e-5 * max(255.0, float(np.abs(expected).max())))
