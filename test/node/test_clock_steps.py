"""Steps of /clock and of stamps, whatever they are: results come again at once."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.images.stamps import SIDES
from stereo_bp_ros.node.diagnostics.ledger import PairDrop
from stereo_bp_ros.node.pairing import Pairing
from test.cases import examples
from test.node.stand_ins import Bench, make_image, make_info

MS, SECOND, HOUR = 10**6, 10**9, 3600 * 10**9
PERIOD = 33 * MS
START = 10**6 * SECOND
PIXELS = np.zeros((24, 32), np.uint8)

#: Frames after a step until there is a result.
FRAMES = 2


class Rig:
    """A clock, two cameras, and a node between pairing and publishers."""

    def __init__(self, **options: float) -> None:
        config = NodeConfig(max_input_age=0.0, **options)       # type: ignore[arg-type]
        self.bench = Bench()
        self.bench.processor.settings = config
        self.pairing = Pairing(
            ledger=self.bench.ledger, generation=self.bench.generation, settings=config,
            on_clock_jump=lambda: self.bench.generation.advance(PairDrop.CLOCK_JUMP),
            clock=lambda: 1.0)
        self.pairing.open()
        self.stamps = dict.fromkeys(SIDES, START)
        self._generation = -1
        self._newest = 0

    def set_clock(self, now_ns: int) -> None:
        before, self.bench.now = self.bench.now, now_ns
        if now_ns < before:
            self.pairing.clock_went_back(now_ns)

    def send(self, side: str, stamp_ns: int) -> None:
        if self._generation != self.bench.generation.number:
            self._generation, self._newest = self.bench.generation.number, 0
        self._newest = max(self._newest, stamp_ns)
        self.pairing.add_camera_info(side, make_info(stamp_ns, side=side), stamp_ns)
        for pair in self.pairing.add_image(side, make_image(stamp_ns, PIXELS), stamp_ns, 0.0):
            self.bench.processor.process(pair)

    def frame(self, order: tuple[str, ...] = SIDES) -> bool:
        """Send an image of each side; returns whether there was a result."""
        before = self.published
        for side in order:
            self.stamps[side] += PERIOD
            self.send(side, self.stamps[side])
        self.set_clock(self.bench.now + PERIOD)
        return self.published > before

    def restart(self) -> None:
        """Deactivate and activate."""
        self.bench.generation.advance(PairDrop.DEACTIVATED)
        self.pairing.close()
        self.pairing.open()

    @property
    def published(self) -> int:
        return len(self.bench.outputs.published)

    @property
    def frames_behind(self) -> int:
        """Frames until stamps are newer than what came: stamps that go back by less than
        ``jump_threshold`` are late images, and no result is older than the one before it."""
        behind = self._newest - min(self.stamps.values())
        limit = self.pairing.settings.jump_threshold * SECOND
        return behind // PERIOD + 1 if 0 <= behind <= limit else 0


@dataclasses.dataclass(frozen=True)
class Step:
    """The clock, cameras or single images of them jump, and some frames follow."""

    what: str
    by_ns: int
    to_zero: bool
    order: tuple[str, ...]
    frames: int

    def take(self, rig: Rig) -> None:
        if self.what == 'restart':
            rig.restart()
        if self.what in ('clock', 'all'):
            now_ns = rig.bench.now
            rig.set_clock(min(0, self.by_ns) if self.to_zero else now_ns + self.by_ns)
            if self.to_zero:            # for a moment
                rig.frame(self.order)
                rig.set_clock(now_ns)
        for side in SIDES:
            if self.what in (side, 'both', 'all'):
                if self.to_zero:
                    rig.send(side, min(0, self.by_ns))
                else:
                    rig.stamps[side] += self.by_ns
            elif self.what == f'stray {side}':
                rig.send(side, rig.stamps[side] + self.by_ns)
        for _ in range(self.frames):
            rig.frame(self.order)


ORDERS = st.sampled_from([SIDES, SIDES[::-1]])
STEPS = st.builds(
    Step, what=st.sampled_from(['clock', 'left', 'right', 'both', 'all', 'stray left',
                                'stray right', 'restart']),
    by_ns=st.one_of(*(st.integers(-limit, limit) for limit in (PERIOD, SECOND, 3 * HOUR)),
                    st.integers(-30, 30).map(PERIOD.__mul__)),
    to_zero=st.sampled_from([False, False, False, True]), order=ORDERS,
    frames=st.integers(0, 4))


def settle(rig: Rig, clock_first: bool, ahead_ns: int) -> None:
    """Both cameras have one clock again, and it is the node's."""
    stamp_ns = max(rig.stamps.values()) + ahead_ns
    if clock_first:
        rig.set_clock(stamp_ns + PERIOD)
    rig.stamps = dict.fromkeys(SIDES, stamp_ns)
    if not clock_first:
        rig.set_clock(stamp_ns + PERIOD)


@settings(max_examples=examples(300))
@given(steps=st.lists(STEPS, max_size=8), last=STEPS, clock_first=st.booleans(), order=ORDERS,
       threshold=st.sampled_from([0.0, 0.1, 1.0]), approximate=st.booleans(),
       queue=st.integers(1, 6))
def test_after_the_last_step_of_clock_and_stamps_results_come_again_within_two_frames(
        steps: list[Step], last: Step, clock_first: bool, order: tuple[str, ...],
        threshold: float, approximate: bool, queue: int) -> None:
    rig = Rig(jump_threshold=threshold, queue_size=queue, approximate_sync=approximate)
    for step in steps:
        step.take(rig)
    last.take(rig)
    settle(rig, clock_first, last.by_ns)
    results = [rig.frame(order) for _ in range(FRAMES + rig.frames_behind)]
    assert any(results)
    assert rig.frame(order)         # and go on


@settings(max_examples=examples(100))
@given(steps=st.lists(STEPS, max_size=8), clock_first=st.booleans(), by_ns=st.integers(
    -3 * HOUR, 3 * HOUR), order=ORDERS)
def test_activation_starts_clean_whatever_was_before(
        steps: list[Step], clock_first: bool, by_ns: int, order: tuple[str, ...]) -> None:
    rig = Rig()
    for step in steps:
        step.take(rig)
    rig.restart()
    settle(rig, clock_first, by_ns)
    assert rig.frame(order)


@given(back_ns=st.integers(1, PERIOD))
def test_a_clock_that_steps_back_by_less_than_a_frame_or_is_0_once_loses_no_frame(back_ns: int
                                                                                  ) -> None:
    rig = Rig()
    for _ in range(10):
        assert rig.frame()
    for wrong_ns in (rig.bench.now - back_ns, 0):
        now_ns = rig.bench.now
        rig.set_clock(wrong_ns)
        assert rig.frame()
        rig.set_clock(now_ns)
        for _ in range(10):
            assert rig.frame()
