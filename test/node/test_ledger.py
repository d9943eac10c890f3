"""What the counters of the node mean."""

from __future__ import annotations

import pytest

from stereo_bp_ros.node.diagnostics.ledger import SIDES, ImageDrop, Ledger, PairDrop


@pytest.mark.parametrize('reason', ImageDrop)
def test_an_image_is_lost_unless_the_node_was_deactivated(reason: ImageDrop) -> None:
    ledger = Ledger()
    for side in SIDES:
        ledger.receive(side)
        ledger.drop_image(side, reason, 3)
    assert ledger.counts().lost == (0 if reason is ImageDrop.DEACTIVATED else 6)


@pytest.mark.parametrize('reason', PairDrop)
def test_a_pair_is_lost_unless_nobody_listened_or_the_node_was_deactivated(
        reason: PairDrop) -> None:
    ledger = Ledger()
    ledger.count('pairs')
    ledger.drop_pair(reason)
    is_quiet = reason in (PairDrop.NO_SUBSCRIBERS, PairDrop.DEACTIVATED)
    assert ledger.counts().lost == (0 if is_quiet else 1)


def test_images_and_pairs_are_lost_together_and_what_is_published_is_not() -> None:
    ledger = Ledger()
    for _ in range(3):
        ledger.count('pairs')
    ledger.count('published')
    ledger.drop_image('left', ImageDrop.UNMATCHED, 2)
    ledger.drop_image('right', ImageDrop.DEACTIVATED, 5)
    ledger.drop_pair(PairDrop.SUPERSEDED)
    ledger.drop_pair(PairDrop.NO_SUBSCRIBERS)
    assert ledger.counts().lost == 3
