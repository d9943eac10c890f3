"""Pairing: which images find each other, and that every one of them is accounted for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.images.stamps import SIDES, Image, PairFinder, sync_setting, why_no_pair
from stereo_bp_ros.issues import IssueCode
from stereo_bp_ros.node.diagnostics.ledger import ImageDrop, Ledger, PairDrop
from stereo_bp_ros.node.pairing import Generation, Pairing, StereoPair
from test.cases import every, examples
from test.node.stand_ins import make_info, make_stamped

MS = 1_000_000
PERIOD = 33 * MS
START = 1_000_000 * MS


class Bench:
    """A pairing with its ledger, fed by hand; the time stands still but in ``wait``.

    :param infos: every image comes after a camera_info of its stamp.
    """

    def __init__(self, *, infos: bool = True, **options: Any) -> None:
        self.infos = infos
        self.ledger = Ledger()
        self.jumps = 0
        self.rejected: list[tuple[IssueCode, str]] = []
        self.seconds = 1.0
        self.pairs: list[StereoPair] = []
        self.generation = Generation()
        self.pairing = Pairing(ledger=self.ledger, generation=self.generation,
                               settings=NodeConfig(**options), on_clock_jump=self._jump,
                               on_reject=self._reject, clock=lambda: self.seconds)
        self.pairing.open()

    def _jump(self) -> None:
        assert not self.pairing._lock.locked()      # the node may ask it
        self.jumps += 1
        self.generation.advance(PairDrop.CLOCK_JUMP)

    def _reject(self, code: IssueCode, text: str) -> None:
        assert not self.pairing._lock.locked()      # what is told may be logged
        self.rejected.append((code, text))

    def image(self, side: str, stamp_ns: int) -> StereoPair | None:
        if self.infos:
            self.info(side, stamp_ns)
        return self._keep(self.pairing.add_image(
            side, make_stamped(stamp_ns), stamp_ns, 0.0))

    def info(self, side: str, stamp_ns: int, **fields: Any) -> StereoPair | None:
        return self._keep(self.pairing.add_camera_info(
            side, make_info(stamp_ns, side=side, **fields), stamp_ns))

    def wait(self, seconds: float) -> StereoPair | None:
        self.seconds += seconds
        return self._keep(self.pairing.release())

    def pair(self, stamp_ns: int) -> StereoPair | None:
        self.image('left', stamp_ns)
        return self.image('right', stamp_ns)

    def drops(self, side: str) -> dict[ImageDrop, int]:
        return {k: v for k, v in self.ledger.counts().image_drops[side].items() if v}

    def _keep(self, pairs: list[StereoPair]) -> StereoPair | None:
        self.pairs += pairs
        self.check()
        return pairs[-1] if pairs else None

    def check(self) -> None:
        """The accounting identity, with what waits looked up where it waits."""
        counts = self.ledger.counts()
        for side in SIDES:
            assert counts.received[side] == counts.pairs + self.pairing.waiting(side) + sum(
                counts.image_drops[side].values())
        assert counts.pairs == (len(self.pairs) + self.pairing.awaiting_camera_info
                                + sum(counts.pair_drops.values()))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_images_of_one_stamp_pair_in_either_order_and_late_ones_too(bench: Bench) -> None:
    bench.pairing.add_image('left', make_stamped(START), START, 5.0)
    assert bench.image('right', START + 1) is None
    bench.image('right', START + PERIOD)
    second = bench.image('left', START + PERIOD)
    bench.info('left', START)
    bench.info('right', START)
    assert bench._keep(bench.pairing.add_image('right', make_stamped(START), START, 7.0))
    assert second is not None
    assert [(p.stamp_ns, p.generation) for p in bench.pairs] == [(START + PERIOD, 0), (START, 0)]
    assert bench.pairs[-1].received == 7.0          # the later image's


def test_approximate_sync_takes_the_closest_within_the_tolerance() -> None:
    bench = Bench(approximate_sync=True, approximate_sync_tolerance_seconds=0.01)
    bench.image('left', START)
    bench.image('left', START + 15 * MS)
    pair = bench.image('right', START + 11 * MS)
    assert pair is not None
    assert (pair.stamp_ns, pair.right_stamp_ns) == (START + 15 * MS, START + 11 * MS)
    assert bench.image('right', START + 11 * MS + 1) is None
    assert bench.image('right', START + 10 * MS) is not None    # exactly the tolerance


def test_lost_partners_are_counted_once_the_queue_is_full() -> None:
    bench = Bench(queue_size=3)
    for k in range(10):
        bench.image('left', START + k * PERIOD)
    assert bench.pairing.waiting('left') == 3
    assert bench.drops('left') == {ImageDrop.UNMATCHED: 7}


def test_repeated_stamps_are_dropped_before_and_after_pairing_and_zero_ones(bench: Bench) -> None:
    bench.image('left', START)
    bench.image('left', START)
    bench.image('right', START)
    bench.image('right', START)
    bench.image('left', START)
    bench.pair(0)
    assert len(bench.pairs) == 1
    assert bench.drops('left') == {ImageDrop.DUPLICATE: 2, ImageDrop.BAD_INPUT: 1}
    assert bench.drops('right') == {ImageDrop.DUPLICATE: 1, ImageDrop.BAD_INPUT: 1}
    assert bench.ledger.counts().bad_inputs == {IssueCode.ZERO_STAMP: 2}


def test_the_latest_pair_waits_for_the_first_camera_infos() -> None:
    bench = Bench(infos=False)
    assert bench.pair(START) is None
    assert bench.pair(START + PERIOD) is None
    assert bench.wait(3600) is None
    assert not bench.pairing.is_timed
    assert bench.ledger.counts().pair_drops[PairDrop.NO_CAMERA_INFO] == 1
    assert bench.pairing.missing_camera_infos() == ['left', 'right']
    assert bench.info('left', START) is None
    pair = bench.info('right', START)
    assert pair is not None
    assert pair.stamp_ns == START + PERIOD


def test_a_looping_bag_loses_no_pair(bench: Bench) -> None:
    for _ in range(3):
        for k in range(60):
            assert bench.pair(START + k * PERIOD) is not None
    assert bench.jumps == 2
    assert [p.generation for p in bench.pairs] == [0] * 60 + [1] * 60 + [2] * 60
    assert bench.drops('left') == bench.drops('right') == {}


def test_a_clock_that_goes_back_starts_over_whatever_the_step(bench: Bench) -> None:
    """Loops shorter than jump_threshold, with the last images of a round after the clock."""
    for _ in range(5):
        bench.pairing.clock_went_back(START - 1)
        bench.image('left', START + 10 * PERIOD)
        for k in range(10):
            assert bench.pair(START + k * PERIOD) is not None
        bench.image('right', START + 9 * PERIOD)
    assert (bench.jumps, len(bench.pairs)) == (4, 50)
    # A clock that follows the first image of a round drops nothing.
    bench.image('left', START - 100 * PERIOD)
    bench.pairing.clock_went_back(START - 100 * PERIOD)
    assert bench.image('right', START - 100 * PERIOD) is not None
    assert bench.jumps == 5


def test_a_clock_that_goes_back_while_pairing_is_closed_is_no_jump(bench: Bench) -> None:
    bench.pair(START + PERIOD)
    bench.pairing.close()
    bench.pairing.clock_went_back(START)
    bench.pairing.open()
    assert bench.pair(START) is not None
    assert (bench.jumps, bench.pairs[-1].generation) == (0, 0)
    # A pair that completes while the node deactivates is of the ended generation.
    bench.generation.advance(PairDrop.DEACTIVATED)
    pair = bench.pair(START + 2 * PERIOD)
    assert pair is not None
    assert bench.generation.ended(pair.generation) is PairDrop.DEACTIVATED


def test_images_from_before_a_jump_are_not_paired_after_it(bench: Bench) -> None:
    end = START + 100 * PERIOD
    bench.pair(end - PERIOD)
    bench.image('left', end)
    bench.image('left', START)                  # the left camera's topic loops first
    assert bench.image('right', end) is None    # the last of the old round
    assert bench.image('right', START) is not None
    assert bench.jumps == 1
    assert bench.drops('left') == bench.drops('right') == {ImageDrop.CLOCK_JUMP: 1}


def test_a_side_that_had_nothing_to_jump_back_from_joins_the_new_epoch(bench: Bench) -> None:
    bench.image('left', START + 100 * PERIOD)
    bench.image('right', START + PERIOD)
    bench.image('left', START + 2 * PERIOD)
    assert bench.image('right', START + 2 * PERIOD) is not None


def test_a_stamp_far_in_the_future_or_a_loop_below_the_threshold_starves_nothing(bench: Bench
                                                                                 ) -> None:
    bench.image('left', START + 20 * PERIOD)
    for _ in range(3):
        for k in range(20):
            bench.pair(START + k * PERIOD)
    assert len(bench.pairs) >= 20
    assert bench.pairing.waiting('left') <= 5
    bench.image('left', START + 10**15)
    assert every(bench.pair(START + k * PERIOD) for k in range(31, 35))
    assert bench.jumps == 1


def test_closing_accounts_for_all_that_waits_and_comes() -> None:
    bench = Bench(infos=False)
    bench.pair(START)
    bench.image('left', START + PERIOD)
    bench.pairing.close()
    bench.image('right', START + PERIOD)
    assert bench.drops('left') == bench.drops('right') == {ImageDrop.DEACTIVATED: 1}
    assert bench.ledger.counts().pair_drops[PairDrop.DEACTIVATED] == 1
    assert bench.pairing.waiting('left') == bench.pairing.waiting('right') == 0


# A camera's stream as it may arrive: some images lost, repeated, late; the bag restarted.
EVENTS = st.lists(st.one_of(
    st.tuples(st.just('pair'), st.integers(0, 200)),
    st.tuples(st.just('left'), st.integers(0, 200)),
    st.tuples(st.just('right'), st.integers(0, 200)),
    st.tuples(st.just('swapped'), st.integers(0, 199)),
    st.tuples(st.sampled_from(['info left', 'info right']), st.integers(0, 200)),
    st.tuples(st.sampled_from(['close', 'open', 'zero', 'wait']), st.just(0)),
    st.tuples(st.just('clock'), st.integers(0, 200)),
), max_size=60)


@settings(max_examples=examples(300))
@given(events=EVENTS, approximate=st.booleans(), queue=st.integers(1, 6),
       threshold=st.sampled_from([0.0, 0.1, 1.0, 100.0]))
def test_every_image_is_accounted_for_whatever_comes(
        events: list[tuple[str, int]], approximate: bool, queue: int, threshold: float) -> None:
    bench = Bench(infos=False, approximate_sync=approximate, queue_size=queue,
                  approximate_sync_tolerance_seconds=0.05, jump_threshold=threshold)
    for kind, k in events:
        stamp = START + k * PERIOD
        if kind in ('left', 'right'):
            bench.image(kind, stamp)
        elif kind == 'pair':
            bench.pair(stamp)
        elif kind == 'swapped':
            for side, at in (('left', stamp), ('left', stamp + PERIOD),
                             ('right', stamp + PERIOD), ('right', stamp)):
                bench.image(side, at)
        elif kind == 'zero':
            bench.image('left', 0)
        elif kind == 'wait':
            bench.wait(0.07)
        elif kind == 'clock':
            bench.pairing.clock_went_back(stamp)
        elif kind == 'close':
            bench.pairing.close()
        elif kind == 'open':
            bench.pairing.open()
        else:
            bench.info(kind.split()[1], stamp, focal=100.0 + k % 3)
        bench.check()
    for pair in bench.pairs:
        limit = 50 * MS if approximate else 0
        assert abs(pair.stamp_ns - pair.right_stamp_ns) <= limit
        assert pair.left_info is not None
        assert pair.right_info is not None
    used = [id(m) for p in bench.pairs for m in (p.left, p.right)]
    assert len(used) == len(set(used))
    bench.pairing.close()
    bench.check()
    counts = bench.ledger.counts()
    for side in SIDES:
        assert counts.received[side] == (len(bench.pairs) + sum(counts.pair_drops.values())
                                         + sum(counts.image_drops[side].values()))


@given(moments=st.lists(st.tuples(st.sampled_from(SIDES), st.integers(0, 60)), max_size=40),
       tolerance=st.sampled_from([0.0, 0.002, 0.005]))
def test_recordings_are_paired_as_topics_are(
        moments: list[tuple[str, int]], tolerance: float) -> None:
    bench = Bench(queue_size=100, jump_threshold=100.0, **(
        {'approximate_sync': True, 'approximate_sync_tolerance_seconds': tolerance}
        if tolerance else {}))
    finder = PairFinder(tolerance)
    found = []
    for side, moment in sorted(moments, key=lambda one: one[1]):
        stamp_ns = START + moment * MS if moment else 0
        bench.image(side, stamp_ns)
        pair = finder.add(Image(side, stamp_ns, stamp_ns, None))
        found += [(pair[0].stamp_ns, pair[1].stamp_ns)] if pair else []
    assert found == [(pair.stamp_ns, pair.right_stamp_ns) for pair in bench.pairs]
    miss = bench.pairing.take_closest_miss()
    if not found and miss is not None and finder.has_stamps:
        assert finder.why_none() == why_no_pair(miss, sync_setting(tolerance))
    counts = bench.ledger.counts()
    told = [code for code, _ in bench.rejected]
    for code, reason, words in ((IssueCode.ZERO_STAMP, ImageDrop.BAD_INPUT, 'the stamp 0'),
                                (IssueCode.DUPLICATE_STAMP, ImageDrop.DUPLICATE, 'another image')):
        dropped = {side: counts.image_drops[side][reason] for side in SIDES}
        assert told.count(code) == sum(dropped.values())
        assert [int(text.split()[0]) for text in finder.rejections() if words in text] == [
            count for count in dropped.values() if count]


def test_a_recording_that_starts_over_has_no_duplicates() -> None:
    finder = PairFinder(0.0)
    stamps = [START + place * 500 * MS for place in range(5)] * 3
    pairs = [finder.add(Image(side, stamp_ns, 0, None)) for stamp_ns in stamps for side in SIDES]
    assert sum(pair is not None for pair in pairs) == len(stamps)
    assert finder.rejections() == []


def test_what_was_rejected_is_dropped_once() -> None:
    finder = PairFinder(0.0)
    images = [Image('left', stamp_ns, 0, number) for number, stamp_ns in enumerate((0, 7, 7))]
    for one in images:
        finder.add(one)
    assert [one.content for one in finder.drop(1)] == [0, 2]
    assert [one.content for one in finder.drop(0)] == [1]
