"""A stereo camera over ROS, whose pairs show a disparity that follows from their stamp; /clock."""

from __future__ import annotations

import abc
import dataclasses
import functools
import threading
import time
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from stereo_bp_ros.images.stamps import SIDES
from test.soak.ledger import Ledger, Shown

#: Disparities that pairs show. Each has its own texture: halves of two pairs match nowhere.
DISPARITIES = range(3, 26)

WIDTH, HEIGHT, FOCAL = 96, 64, 250.0

#: Seconds between two messages of /clock.
CLOCK_PERIOD = 0.01


@dataclasses.dataclass(frozen=True)
class Motion:
    """By how many rows the right camera shows things lower, from the stamp ``since_ns`` on.

    px: at that stamp, and before; px_per_s: more with each second.
    """

    since_ns: int
    px: float = 0.0
    px_per_s: float = 0.0

    def rows(self, stamp_ns: int) -> float:
        return self.px + self.px_per_s * 1e-9 * max(0, stamp_ns - self.since_ns)


@dataclasses.dataclass(frozen=True)
class Settings:
    """How the camera is; a fault replaces some of it.

    rate:     pairs a second.
    sides:    that send images.
    losing:   the side that sends only every third image, or ''.
    behind:   seconds by which stamps are behind, of left and right.
    stands:   stamps stand still; zero: they are 0.
    focal, baseline: of camera_info, pixels and metres.
    infos:    whether camera_info is sent; info_width: of it, 0 = that of the images.
    short:    the data of images ends too soon.
    motion:   of the right camera; pairs are smooth then, so that rows can be measured.
    misses:   vertical disparity may be so large that results are not judged.
    """

    running: bool = True
    rate: float = 20.0
    sides: tuple[str, ...] = SIDES
    losing: str = ''
    behind: tuple[float, float] = (0.0, 0.0)
    stands: bool = False
    zero: bool = False
    width: int = WIDTH
    height: int = HEIGHT
    encoding: str = 'mono8'
    focal: float = FOCAL
    baseline: float = 0.1
    infos: bool = True
    info_width: int = 0
    short: bool = False
    motion: Motion | None = None
    misses: bool = False


def shown_at(stamp_ns: int) -> int:
    """The disparity of the pair with this stamp."""
    return DISPARITIES[stamp_ns // 1_000_000 % len(DISPARITIES)]


@functools.cache
def textures(disparity: int, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """Left and right image, uint8 height x width, with left(x) = right(x - disparity)."""
    values = np.random.default_rng(disparity).integers(
        0, 256, (height, width + disparity), dtype=np.uint8)
    return values[:, :width].copy(), values[:, disparity:].copy()


@functools.cache
def corners(disparity: int, width: int, height: int) -> tuple[np.ndarray, np.ndarray]:
    """As ``textures``, so smooth that parts of a row can be measured."""
    values = np.random.default_rng(disparity).normal(128, 120, (height, width + disparity))
    scene = np.clip(cv2.GaussianBlur(values, (0, 0), 0.9), 0, 255).astype(np.uint8)
    return scene[:, :width].copy(), scene[:, disparity:].copy()


def lowered(image: np.ndarray, rows: float) -> np.ndarray:
    """An image whose contents lie so many rows lower."""
    return np.asarray(cv2.warpAffine(
        image, np.array([[1.0, 0, 0], [0, 1, rows]]), image.shape[::-1],
        flags=cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REPLICATE))


class Periodic(abc.ABC):
    """Calls ``step`` in a thread of its own, in periods that it returns, until it is closed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @abc.abstractmethod
    def step(self) -> float:
        """What is due; returns the seconds to the next one."""

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(5)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            with self.lock:
                period = self.step()
            # A machine that is late does not make up for it with a burst.
            due = max(due + period, time.monotonic() - period)
            self._stopping.wait(max(0.0, due - time.monotonic()))


class Camera(Periodic):
    """Sends pairs as its settings say; one at a time.

    :param client: what publishes: ``test.node.client.Client``.
    :param ledger: is told of each frame before it is sent.
    :param clock: where stamps come from, nanoseconds.
    """

    def __init__(self, client: Any, ledger: Ledger, clock: Callable[[], int]) -> None:
        self._client, self._ledger, self._clock = client, ledger, clock
        self._settings, self._stamp = Settings(running=False), 0
        super().__init__()

    def set(self, **changes: Any) -> None:
        """Be as ever but for these changes."""
        with self.lock:
            self._settings = Settings(**changes)

    def now_ns(self) -> int:
        """What the next stamp is made of."""
        return self._clock()

    def send(self) -> int:
        """Send one frame now, and return its place."""
        with self.lock:
            return self._send()

    def step(self) -> float:
        if self._settings.running:
            self._send()
        return 1 / self._settings.rate

    def _send(self) -> int:
        settings = self._settings
        if not settings.stands:
            self._stamp = self._clock()
        stamps = {side: 0 if settings.zero else self._stamp - int(behind * 1e9)
                  for side, behind in zip(SIDES, settings.behind, strict=True)}
        sides = tuple(side for side in settings.sides
                      if side != settings.losing or not self._ledger.sent % 3)
        disparity = shown_at(stamps['left'])
        place = self._ledger.send(
            stamps['left'], Shown(None if settings.misses else disparity, settings.width,
                                  settings.height, settings.focal), time.monotonic(), sides)
        if settings.infos:
            for side in SIDES:
                info = self._client.info(
                    side, settings.info_width or settings.width, settings.height,
                    focal=settings.focal, baseline=settings.baseline, cx=settings.width / 2)
                self._client.send_info(side, info, stamps[side])
        for side in sides:
            self._client.send_image(side, self._image(side, disparity, stamps[side]),
                                    stamps[side])
        return place

    def _image(self, side: str, disparity: int, stamp_ns: int) -> Any:
        settings = self._settings
        scene = textures if settings.motion is None else corners
        pixels = scene(disparity, settings.width, settings.height)[side == 'right']
        if settings.motion is not None and side == 'right':
            pixels = lowered(pixels, settings.motion.rows(stamp_ns))
        if settings.encoding == 'rgb8':
            pixels = np.repeat(pixels[:, :, None], 3, axis=2)
        message = self._client.image(pixels, settings.encoding, frame_id=f'{side}_camera')
        if settings.short:
            del message.data[len(message.data) // 2:]
        return message


class SimulatedClock(Periodic):
    """/clock of a simulation that can stop, jump and fall silent.

    ``silent``: time goes on, but nothing is published. ``frozen``: it stands still.

    :param node: publishes.
    """

    def __init__(self, node: Any) -> None:
        from rosgraph_msgs.msg import Clock
        self._kind, self._publisher = Clock, node.create_publisher(Clock, '/clock', 10)
        self._time, self._at = time.time_ns(), time.monotonic_ns()
        self.silent = self.frozen = False
        super().__init__()

    def now_ns(self) -> int:
        """The time that was published last, or would have been."""
        return self._time

    def jump(self, seconds: float) -> None:
        """Go ahead or back by so much, and publish it."""
        with self.lock:
            self._time += int(seconds * 1e9)
            self._publish()

    def step(self) -> float:
        now = time.monotonic_ns()
        if not self.frozen:
            self._time += now - self._at
        self._at = now
        if not self.silent:
            self._publish()
        return CLOCK_PERIOD

    def _publish(self) -> None:
        message = self._kind()
        message.clock.sec, message.clock.nanosec = divmod(self._time, 10**9)
        self._publisher.publish(message)
