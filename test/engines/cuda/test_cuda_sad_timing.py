"""The data-streaming variants on a GPU: all give the default's results and have a time."""

from __future__ import annotations

import pytest

pytest.importorskip('cupy')
from stereo_bp_ros import MatcherConfig
from test.cases import every

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize('reference', ['left', 'right'])
def test_every_variant_has_a_time_and_the_defaults_results(textured_pair, reference):
    left, right = textured_pair(200, 60, 7)
    config = MatcherConfig(stereo_algorithm='sad', preprocessing='none', disparity_range=32,
                           correlation_window_size=5, reference_image=reference, backend='cuda')
    from stereo_bp_ros.papers.streamed_sad.timing import variant_times
    default, times = variant_times(config, left, right, 3)
    assert default > 0
    assert len(times) == 3 * 2 * 2 * 5
    assert every(time > 0 for time in times.values())
