"""SAD block matching on a GPU: the CPU engine's bits, from every variant and launch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip('cupy')
pytest.importorskip('numba')
from benchmarks.papers.streaming import variant_times
from stereo_bp_ros import MatcherConfig, StereoMatcher
from stereo_bp_ros.engines.choice import choose
from stereo_bp_ros.engines.cpu.engine import CpuEngine
from stereo_bp_ros.engines.cuda.engine import CudaEngine
from stereo_bp_ros.engines.cuda.sad import launch as sad_launch
from test.cases import every
from test.engines.support.pairs import all_outputs as run
from test.engines.support.pairs import compare_engines as compare
from test.engines.support.pairs import noisy_pair
from test.settings import streamed

pytestmark = pytest.mark.gpu

VARIANTS = ('global', 'shared_one', 'shared_all')

#: Everything that SAD fills, read by what these settings publish.
EVERYTHING = {'uniqueness_ratio': 8.0, 'disp12_max_diff': 1}


def configuration(**changes: Any) -> MatcherConfig:
    return MatcherConfig.from_mapping({'stereo_algorithm': 'sad', **changes})


@pytest.mark.parametrize(('changes', 'width', 'height'), [
    *(({'correlation_window_size': window, 'disparity_range': disparities},
       disparities + window + 77, window + 41)
      for window in (1, 3, 5, 9, 17, 19, 35, 49, 51)
      for disparities in (2, 21, 64, 130)),
    *(({'correlation_window_size': 7, 'disparity_range': disparities, 'preprocessing': 'none',
        'subpixel': subpixel}, disparities + 101, 50)
      for disparities in (2, 3, 8, 9, 40, 65, 100, 129, 256, 449, 512)
      for subpixel in (True, False)),
    *(({'correlation_window_size': 9, 'disparity_range': 16}, width, height)
      for width, height in ((24, 9), (31, 64), (130, 17), (39, 100), (300, 19))),
    *(({'correlation_window_size': 5, 'disparity_range': 24, 'min_disparity': first,
        'reference_image': reference}, 141, 60)
      for first in (-31, -16, -3, 2, 19) for reference in ('left', 'right')),
    *(({'correlation_window_size': window, 'disparity_range': disparities, 'min_disparity': first,
        **streamed(variant)}, disparities + window + 60, window + 30)
      for window, disparities, first in ((5, 64, 0), (1, 2, -1), (13, 30, -9), (51, 40, 3))
      for variant in VARIANTS),
    *(({'correlation_window_size': 5, 'disparity_range': 16, 'preprocessing': preprocessing,
        'reference_image': reference, **streamed(variant)}, 90, 40)
      for preprocessing in ('none', 'sobel_x') for reference in ('left', 'right')
      for variant in VARIANTS)], ids=str)
def test_frames_have_the_bits_of_the_cpu_engine(changes: dict[str, Any], width: int, height: int
                                                ) -> None:
    found = compare(configuration(**EVERYTHING, **changes),
                    *noisy_pair(width, height, nearer=9))
    assert (found['confidence'] > 0).any()


@pytest.mark.parametrize(('width', 'height', 'first'), [
    (16, 16, 0), (25, 8, 0), (2, 2, 0), (5, 3, 0), (141, 60, -200), (141, 60, 150)])
@pytest.mark.parametrize('variant', ['auto', *VARIANTS])
@pytest.mark.parametrize('reference', ['left', 'right'])
def test_images_without_a_valid_window_have_no_confidence(reference: str, variant: str, width: int,
                                                          height: int, first: int) -> None:
    config = configuration(correlation_window_size=9, disparity_range=16, min_disparity=first,
                           reference_image=reference, **streamed(variant), **EVERYTHING)
    found = compare(config, *noisy_pair(width, height, nearer=9))
    assert not (found['confidence'] > 0).any()


@pytest.mark.parametrize('changes', [
    {}, {'preprocessing': 'none'}, {'smoothing_sigma': 0.8}, {'preprocessing': 'sobel'},
    {'preprocessing': 'residual'}, {'uniqueness_ratio': 20.0}, {'texture_threshold': 900},
    {'disp12_max_diff': 1}, {'median_window_size': 3, 'speckle_size': 40},
    {'filling': 'background', 'disp12_max_diff': 1}, {'subpixel': False},
    {'message_type': 'float32'},
    {'filling': 'background', 'disp12_max_diff': 2, 'speckle_size': 30, 'median_window_size': 5,
     'uniqueness_ratio': 5.0, 'texture_threshold': 200, 'reference_image': 'right'}], ids=str)
@pytest.mark.parametrize('image', ['mono8', 'mono16'])
def test_every_setting_gives_what_the_cpu_engine_gives(changes: dict[str, Any],
                                                       image: str) -> None:
    config = configuration(disparity_range=30, correlation_window_size=11, **changes)
    left, right = noisy_pair(88, 47, nearer=9)
    if image == 'mono16':
        left, right = (side.astype(np.uint16) * 251 for side in (left, right))
    if image == 'mono8' and config.smoothing_sigma == 0 and config.preprocessing != 'sobel':
        compare(config, left, right)
        return
    # The last bits of the matched images depend on the order of sums, and with them, rarely, how
    # a pixel is rounded to 8 bits.
    found, expected = (run(engine.of(config, 88, 47), left, right)
                       for engine in (CudaEngine, CpuEngine))
    for name, step in (('disparity', 0.125), ('confidence', 0.02)):
        assert np.mean(np.abs(found[name] - expected[name]) <= step) > 0.98, name


def test_the_largest_sums_do_not_overflow() -> None:
    config = configuration(correlation_window_size=51, disparity_range=130, preprocessing='none',
                           **EVERYTHING)
    left, right = np.full((60, 200), 255, np.uint8), np.zeros((60, 200), np.uint8)
    compare(config, left, right)
    right[:, ::3] = 255
    compare(config, left, right)


@pytest.mark.parametrize('rows', [1, 7, 200])
def test_results_do_not_depend_on_the_rows_of_a_block(monkeypatch: pytest.MonkeyPatch,
                                                      rows: int) -> None:
    choose = sad_launch.launch_of
    monkeypatch.setattr(sad_launch, 'launch_of', lambda *given: choose(*given, rows=rows))
    config = configuration(correlation_window_size=9, disparity_range=70, **EVERYTHING)
    compare(config, *noisy_pair(190, 48, nearer=9))


@pytest.mark.parametrize(('window', 'disparities'), [(5, 64), (51, 256)])
def test_devices_with_little_shared_memory_keep_one_copy(monkeypatch: pytest.MonkeyPatch,
                                                         window: int, disparities: int) -> None:
    config = configuration(correlation_window_size=window, disparity_range=disparities,
                           **EVERYTHING)
    monkeypatch.setattr(sad_launch, 'MIN_ROWS', 1000)
    assert sad_launch.launch_of(config, 400, 100).copies == 1
    compare(config, *noisy_pair(400, 100, nearer=9))


def test_auto_takes_the_gpu_and_says_so() -> None:
    config = configuration(backend='auto')
    assert choose(config).name == 'cuda'
    left, right = noisy_pair(200, 60, nearer=9)
    matcher = StereoMatcher(config)
    assert matcher.compute(left, right).backend == 'cuda'


@pytest.mark.parametrize('reference', ['left', 'right'])
def test_every_variant_has_a_time_and_the_defaults_results(reference: str) -> None:
    config = configuration(preprocessing='none', disparity_range=32, correlation_window_size=5,
                           reference_image=reference, backend='cuda')
    default, times = variant_times(config, *noisy_pair(200, 60), 3)
    assert default > 0
    assert len(times) == 3 * 2 * 2 * 5
    assert every(time > 0 for time in times.values())
