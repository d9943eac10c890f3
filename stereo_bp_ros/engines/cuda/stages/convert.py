"""Stages ``upload`` and ``convert``: the bytes of both images to the device, and grey values.

The host copies an image's rows into pinned memory as they are; an image that lies in such memory
already is read where it is. Everything else happens on the device.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

from stereo_bp_ros.cameras.rectification import Maps
from stereo_bp_ros.engines.cuda.context import Context
from stereo_bp_ros.engines.cuda.runtime import compiler, device
from stereo_bp_ros.engines.cuda.runtime.arena import upload
from stereo_bp_ros.engines.cuda.runtime.structures import declared_in
from stereo_bp_ros.images.raw_images import ENCODINGS, RawImage
from stereo_bp_ros.images.stamps import SIDES

#: Threads of a block, and blocks that suffice for the speed of the bus.
UPLOAD_THREADS, MAX_UPLOAD_BLOCKS = 256, 64

#: Blocks where each asks through the bus where its image lies: 41 take 5 to 13 us longer.
MAX_ASKING_BLOCKS = 4

#: Bytes that one thread copies at once.
UNIT = 16

CONVERT_BLOCK = (32, 8, 1)

#: As in ``convert.cu``.
CHANNEL, COLOUR, MOSAIC, WIDE, WIDE_MOSAIC, VALUES = range(6)

#: C++ type of the grey values in the arrays of a name.
KINDS = {'grey': 'uint8', 'values': 'float'}


#: Addresses at which the device reads both images.
Sources = tuple[int, int]

#: In place of these: the host has copied the images into the engine's own pinned memory; they
#: lie wherever the pinned array ``sources`` says.
STAGED, ANYWHERE = (0, 0), (-1, -1)


class Reading(NamedTuple):
    """How the bytes of an image are to be read; ``Source`` in ``convert.cu``.

    is_mapped: its grey values are those of an image that goes through maps.
    """

    layout: int
    pixel_bytes: int
    first: int
    is_mapped: bool = False

    @property
    def is_8bit(self) -> bool:
        """Whether grey values are whole numbers in 0..255."""
        return self.layout not in (WIDE, WIDE_MOSAIC)

    @property
    def is_grey(self) -> bool:
        """Whether the bytes are the grey values."""
        return self.layout == CHANNEL and self.pixel_bytes == 1 and not self.is_mapped


@declared_in('frame/convert.cu', 'Segment')
class _Segment(ctypes.Structure):
    """``Segment`` of the kernels."""


@declared_in('frame/convert.cu', 'Upload')
class _Upload(ctypes.Structure):
    """``Upload`` of the kernels."""


@declared_in('frame/convert.cuh')
class Source(ctypes.Structure):
    """As in ``convert.cu``."""


@declared_in('frame/convert.cu', 'Conversion')
class _Conversion(ctypes.Structure):
    """``Conversion`` of the kernels."""


def _reading(name: str, big_endian: bool) -> Reading:
    encoding = ENCODINGS[name]
    upper = 0 if big_endian else 1
    if encoding.bayer:
        red = encoding.bayer.index('r')
        return Reading(WIDE_MOSAIC, 2, upper << 2 | red) if encoding.bits == 16 else Reading(
            MOSAIC, 1, red)
    if encoding.bits == 16:
        return Reading(WIDE, 2, upper)
    if encoding.luma >= 0:
        return Reading(CHANNEL, encoding.channels, encoding.luma)
    if encoding.channels > 1:
        return Reading(COLOUR, encoding.channels, 0 if name.startswith('rgb') else 2)
    return Reading(CHANNEL, 1, 0)


_READINGS = {(name, big_endian): _reading(name, big_endian)
             for name in ENCODINGS for big_endian in (False, True)}


def reading(raw: RawImage) -> Reading:
    """How an image is read; padding of its rows does not matter."""
    return _READINGS[raw.encoding, bool(raw.big_endian)]


def pinned_address(raw: RawImage) -> int:
    """Where the device can read the bytes of an image as ``upload`` wants them; 0 = nowhere.

    Only writable memory is asked about: what is pinned was made to be filled.
    """
    if raw.step != raw.width * raw.layout.pixel_bytes:
        return 0
    memory = memoryview(raw.data)
    if memory.readonly or not memory.c_contiguous:
        return 0
    address = device.mapped_address(memory)
    return 0 if address % UNIT else address


class PinnedSources:
    """Pairs of pinned images that came more than once, each of which gets a graph of its own.

    A graph that knows where its images lie asks nothing through the bus.
    """

    #: Pairs with a graph; looks since the last of one after which another may have its place;
    #: pairs that are remembered after one look.
    MAX_KNOWN, LONG_AGO, MAX_SEEN = 8, 64, 64

    def __init__(self) -> None:
        self._looks = 0
        self._known: dict[Sources, int] = {}        # and which look was the last
        self._seen: dict[Sources, None] = {}        # once, the oldest first

    def see(self, sources: Sources) -> tuple[Sources, list[Sources]]:
        """What a frame's graph is to know of where they lie; pairs that are known no longer."""
        self._looks += 1
        if sources in self._known:
            self._known[sources] = self._looks
            return sources, []
        if sources not in self._seen:
            self._seen[sources] = None
            if len(self._seen) > self.MAX_SEEN:
                del self._seen[next(iter(self._seen))]
            return ANYWHERE, []
        dropped = []
        if len(self._known) == self.MAX_KNOWN:
            oldest = min(self._known, key=self._known.__getitem__)
            if self._looks - self._known[oldest] <= self.LONG_AGO:
                return ANYWHERE, []
            del self._known[oldest]
            dropped.append(oldest)
        del self._seen[sources]
        self._known[sources] = self._looks
        return sources, dropped

    def clear(self) -> list[Sources]:
        """Begin anew; returns the pairs that were known."""
        dropped = list(self._known)
        self._known.clear()
        return dropped


def stage(raw: RawImage, staging: np.ndarray[Any, Any]) -> None:
    """Copy the bytes of an image without the padding of its rows, and without planes of chroma.

    :param staging: uint8, at least as many.
    """
    row = raw.width * raw.layout.pixel_bytes
    size = row * raw.height
    if raw.step == row:
        np.copyto(staging[:size], np.frombuffer(raw.data, np.uint8, size))
        return
    rows = np.ndarray((raw.height, row), np.uint8, memoryview(raw.data).cast('B'), 0,
                      (raw.step, 1))
    np.copyto(staging[:size].reshape(raw.height, row), rows)


def copy(raw: RawImage, target: int, stream: int) -> None:
    """As ``stage``, for an image in the memory of a device.

    :param target: address on the device.
    """
    from cupy.cuda import runtime
    row = raw.width * raw.layout.pixel_bytes
    runtime.memcpy2DAsync(target, row, raw.data.address, raw.step, row, raw.height,
                          runtime.memcpyDefault, stream)


class Convert:
    """Both stages for one configuration and size.

    :param image: width and height of the images, pixels.
    :param factor: how many times they are reduced.
    """

    def __init__(self, context: Context, image: tuple[int, int], factor: int) -> None:
        self._device, self._config, self._width, self._height, self._arena = context
        self._image, self._factor = image, factor
        #: With the right image as reference, swapped and mirrored images have the geometry of
        #: the left one: pixel x of the right matches x + d, which after mirroring is x - d.
        self.is_mirrored = self._config.reference_image == 'right'

    def load(self) -> None:
        """Compile or load what the stages launch."""
        for name in kernels():
            compiler.kernel(self._device, 'frame/convert.cu', name)

    def grey(self, readings: tuple[Reading, Reading]) -> str:
        """Name of the arrays of grey values: 'grey', uint8, or 'values', float32."""
        return 'grey' if all(each.is_8bit for each in readings) else 'values'

    def is_needed(self, readings: tuple[Reading, Reading]) -> bool:
        """Whether the bytes that go up are not the grey values already."""
        return (self.is_mirrored or self._factor > 1
                or not all(each.is_grey for each in readings))

    def _target(self, readings: tuple[Reading, Reading]) -> str:
        """Name of the arrays on the device that the bytes go to."""
        return 'raw' if self.is_needed(readings) else 'grey'

    def readings(self, pair: tuple[RawImage, RawImage], is_warped: bool
                 ) -> tuple[Reading, Reading]:
        """How both images are read for matching.

        :param is_warped: the right camera's goes through maps, at least.
        """
        return reading(pair[0]), reading(pair[1])

    def fill_maps(self, side: str, maps: Maps, stream: int) -> None:
        """Copy the maps of a camera to the device. The stream is done when this returns."""
        for name, values in zip(('map', 'map_parts'), maps, strict=True):
            upload(self._arena.device[f'{side}_{name}'], values, stream)

    def places(self, pair: tuple[RawImage, RawImage], readings: tuple[Reading, Reading]
               ) -> Sources:
        """Where the bytes of images are once they are copied, of which one is on the device.

        What is on the device goes where ``upload`` would bring it, which then has less to do.
        """
        target = self._target(readings)
        left, right = (
            self._arena.device[f'{side}_{target}'] if raw.is_on_device
            else self._arena.host_address[f'{side}_raw']
            for side, raw in zip(('left', 'right'), pair, strict=True))
        return left, right

    def enqueue_upload(self, stream: int, readings: tuple[Reading, Reading], sources: Sources,
                       stamp: int) -> bool:
        """Copy parameters and images to the device; False where it has them already.

        :param sources: where the images lie.
        :param stamp: address of the time at which the stage starts.
        """
        arena = self._arena
        target = self._target(readings)
        pixels = self._image[0] * self._image[1]
        host = arena.host_address
        left, right = ((host['left_raw'], host['right_raw'])
                       if sources in (STAGED, ANYWHERE) else sources)
        wanted = [(host['parameters'], 'parameters', arena.nbytes['parameters']),
                  (left, f'left_{target}', pixels * readings[0].pixel_bytes),
                  (right, f'right_{target}', pixels * readings[1].pixel_bytes)]
        segments = []
        for from_, to, size in wanted:
            is_there = from_ == arena.device[to] and (
                sources != ANYWHERE or to == 'parameters')
            segments.append(_Segment(from_, arena.device[to],
                                     *divmod(0 if is_there else size, UNIT)))
        most = max(segment.count for segment in segments)
        if most == 0:
            return False
        blocks = min(MAX_ASKING_BLOCKS if sources == ANYWHERE else MAX_UPLOAD_BLOCKS,
                     -(-most // UPLOAD_THREADS))
        compiler.kernel(self._device, 'frame/convert.cu', 'upload').launch(
            stream, (blocks, 3, 1), (UPLOAD_THREADS, 1, 1), 0,
            _Upload((_Segment * 3)(*segments),
                    host['sources'] if sources == ANYWHERE else None, stamp))
        return True

    def enqueue(self, stream: int, readings: tuple[Reading, Reading], stamp: int) -> bool:
        """Make grey values of the bytes; False where they are those already."""
        if not self.is_needed(readings):
            return False
        self._enqueue_conversion(stream, readings, SIDES, stamp)
        return True

    def _enqueue_conversion(self, stream: int, readings: tuple[Reading, Reading],
                            sides: tuple[str, ...], stamp: int | None) -> None:
        """:param sides: of the images that are converted, as they are matched."""
        self._launch(stream, f'convert<{KINDS[self.grey(readings)]}>', len(sides), _Conversion(
            self._sources(readings, sides), self._width, self._height, *self._image,
            self._factor, self.is_mirrored, self._config.mono16_scale / self._factor**2, stamp))

    def _launch(self, stream: int, name: str, images: int, argument: ctypes.Structure) -> None:
        columns, rows, _ = CONVERT_BLOCK
        compiler.kernel(self._device, 'frame/convert.cu', name).launch(
            stream, (-(-self._width // columns), -(-self._height // rows), images),
            CONVERT_BLOCK, 0, argument)

    def _sources(self, readings: tuple[Reading, Reading], sides: tuple[str, ...]
                 ) -> ctypes.Array[Source]:
        device, grey = self._arena.device, self.grey(readings)
        return (Source * 2)(*(
            Source(device[f'{side}_raw'], device[f'{side}_{grey}'], each.layout,
                   each.pixel_bytes, each.first)
            for side, each in zip(SIDES, readings, strict=True) if side in sides))


def kernels() -> list[str]:
    """Names of the kernels in ``convert.cu``."""
    return ['upload', *(f'convert<{kind}>' for kind in KINDS.values())]
