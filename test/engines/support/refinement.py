"""What matching hands over to refinement on the CPU, and what refinement makes of it."""

from __future__ import annotations

import collections

import numpy as np

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.engines import geometry
from stereo_bp_ros.engines.cpu import scratch
from stereo_bp_ros.engines.cpu.matching import Matches
from stereo_bp_ros.engines.cpu.outputs import Finished, fill
from stereo_bp_ros.engines.cpu.stages import refine as stage
from stereo_bp_ros.images.raw_images import RawImage
from test.engines.support.outputs import rubbish

WIDTH, HEIGHT, D = 70, 33, 20
CALIBRATION = Calibration(focal_px=500.0, baseline_m=0.12, cx_left=35.0, cx_right=35.0, cy=16.0)
# Middlebury 2014, Motorcycle at full size: cx1 - cx0 = 31.086.
MOTORCYCLE = Calibration(focal_px=3979.911, baseline_m=0.193001, cx_left=1244.772,
                         cx_right=1275.858, cy=1019.507)


def sad(**changes):
    return MatcherConfig(**{'stereo_algorithm': 'sad', 'disparity_range': D,
                            'correlation_window_size': 3, **changes})


def bp(**changes):
    return MatcherConfig(**{'stereo_algorithm': 'bp', 'disparity_range': D,
                            'message_type': 'float32', 'correlation_window_size': 3, **changes})


def combined(**changes):
    return bp(**{'message_type': 'int16', 'census_weight': 1.0, **changes})


def matched(config, width=WIDTH, height=HEIGHT, seed=0):
    """What a matching stage could hand over, in the frame of matching."""
    random = np.random.default_rng(seed)
    d, shape = config.disparity_range, (height, width)
    # Smooth enough for the filters to keep something, with noise for them to remove.
    label = (np.add.outer(np.arange(height) // 9, np.arange(width) // 13) * 2) % d
    noisy = random.random(shape) < 0.2
    label[noisy] = random.integers(0, d, noisy.sum())
    outside = np.ones(shape, bool)
    if config.stereo_algorithm == 'sad':
        outside[window_of(config, width, height)] = False
    else:
        outside[1:-1, 1:-1] = False
    label[outside] = -1
    fraction = random.integers(-8, 9, shape)
    fraction[(label <= 0) | (label == d - 1)] = 0
    costs = np.float32 if config.message_type == 'float32' else np.int32
    if config.stereo_algorithm == 'sad':
        costs = np.int32
    best = random.integers(0, 40, shape).astype(costs)
    second = (best + random.integers(0, 20, shape)).astype(costs)
    right_label = random.integers(-1, d, shape)
    return {'label': label.astype(np.int16), 'fraction': fraction.astype(np.int8),
            'best': best, 'second': second, 'right_label': right_label.astype(np.int16),
            'grey': random.integers(0, 256, shape).astype(np.float32)}


def holed(config, width=WIDTH, height=HEIGHT, seed=0):
    """The same of a slanted plane with noise, holes, outliers and an invalid band on the left."""
    random = np.random.default_rng(seed)
    inputs = matched(config, width, height, seed)
    d = config.disparity_range
    slanted = np.add.outer(np.arange(height) * 0.3, np.arange(width) * -0.05)
    value = np.clip((slanted - slanted.min() + random.normal(0, 0.3, slanted.shape)) * d / 15, 0,
                    d - 1)
    label = np.floor(value + 0.5).astype(np.int16)
    label[random.random(label.shape) < 0.05] = d // 2
    label[random.random(label.shape) < 0.2] = -1
    for y in range(height):
        label[y, :random.integers(0, width // 2)] = -1
    label[height // 2] = -1
    label[inputs['label'] < 0] = -1
    fraction = np.clip(np.floor(16 * (value - label) + 0.5), -8, 7)
    fraction[(label <= 0) | (label == d - 1)] = 0
    return {**inputs, 'label': label, 'fraction': fraction.astype(np.int8)}


def window_of(config, width=WIDTH, height=HEIGHT):
    """Slices of the valid window in the frame of matching."""
    return geometry.valid_window(config.replace(reference_image='left'), width, height).slices


def refine(config, inputs, calibration=None, outputs=('disparity',), largest_cost=30.0):
    height, width = inputs['label'].shape
    arrays = {name: np.full(shape, 55, dtype)
              for name, shape, dtype in scratch.refine(config, width, height)}
    results = rubbish(outputs, (height, width))
    needed = stage.needs(config, outputs)
    matches = Matches(*(inputs[name] for name in Matches._fields[:5]), *needed)
    stage.refine(matches, inputs['grey'], inputs['grey'], config, arrays,
                 results.get('confidence'), largest_cost)
    reference = RawImage.from_array(inputs['grey'].astype(np.uint8))
    fill(Finished(arrays['final'], config.min_disparity, reference, config, calibration, {}),
         results, collections.defaultdict(float))
    return results


def refined(config, inputs, **rest):
    """Sixteenths in the frame of matching, from the published disparity; -16 = invalid."""
    disparity = refine(config, inputs, **rest)['disparity']
    if config.reference_image == 'right':
        disparity = disparity[:, ::-1]
    return np.round(16 * (disparity.astype(np.float64) - config.min_disparity)).astype(int)


def plain_sixteenths(config, inputs):
    """Labels and fractions alone, with nothing rejected but what has no label or no window."""
    value = inputs['label'].astype(int) * 16
    if config.subpixel:
        value += inputs['fraction']
    value[inputs['label'] < 0] = -16
    if config.border == 'invalid':
        inside = np.zeros(value.shape, bool)
        inside[window_of(config, value.shape[1], value.shape[0])] = True
        value[~inside] = -16
    return value
