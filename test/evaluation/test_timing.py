"""Variants in turn: who is left out, and when it ends."""

from __future__ import annotations

import pytest

pytest.importorskip('numba')
from stereo_bp_ros import MatcherConfig
from stereo_bp_ros.engines import choice
from stereo_bp_ros.errors import MemoryLimitError
from stereo_bp_ros.evaluation import timing


@pytest.fixture
def pair(textured_pair):
    return timing.Pair('texture', *textured_pair(64, 48, 5), 16)


def variants() -> list[timing.Variant]:
    """Two that can run, around one whose memory is refused."""
    config = MatcherConfig(backend='cpu')
    return [timing.Variant('first', config),
            timing.Variant('large', config.replace(memory_limit=1000)),
            timing.Variant('last', config.replace(iterations=2))]


def test_a_variant_that_cannot_run_is_left_out_where_refusals_are_noted(pair):
    refused = {}
    results = timing.measure(pair, variants(), 3, choice.choose, refused=refused)
    assert [(one.variant, len(one.total)) for one in results] == [('first', 3), ('last', 3)]
    assert list(refused) == ['large']
    assert isinstance(refused['large'], MemoryLimitError)
    with pytest.raises(MemoryLimitError):
        timing.measure(pair, variants(), 3, choice.choose)


def test_slow_variants_take_turns_frame_by_frame_and_every_frame_counts(pair, monkeypatch):
    matched = []
    compute = timing.StereoMatcher.compute

    def counted(self, *arguments, **options):
        matched.append(self)
        return compute(self, *arguments, **options)
    monkeypatch.setattr(timing.StereoMatcher, 'compute', counted)
    seen = []
    timing.measure(pair, variants()[::2], 25, choice.choose, lambda: seen.append(len(matched)))
    assert seen[0] == 2 + 2 * (1 + timing.TURN)     # the cold start, and one uncounted frame
    assert len(matched) == 2 + 2 * (25 + 3)
    matched.clear()
    timing.measure(pair, variants()[::2], 25, choice.choose, seconds=1e-9)
    assert len(matched) == 2 + 2
