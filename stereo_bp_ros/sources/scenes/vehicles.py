"""Vehicles of the synthetic street: bodies of a few planar panels that read as cars and vans.

A vehicle's own frame has its rear at z = 0, its front towards +z, x = 0 in the middle and the
ground at y = 0 (y down).
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from stereo_bp_ros.sources.scenes import textures
from stereo_bp_ros.sources.scenes.meshes import (
    SHADE,
    VEHICLE,
    Mesh,
    Texture,
    join,
    lengthwise,
    patch,
    upright,
)

TEXELS_PER_M = 128
GLASS = 44.0
SHADOW_MARGIN_M = 0.35


@dataclass(frozen=True)
class Shape:
    """Outline of a vehicle in metres: heights above the ground, places along its length.

    The cabin's four corners seen from the side are (rear_low, belt), (rear_high, roof),
    (front_high, roof) and (front_low, belt); `nose` is the height of the bonnet's front edge.
    """

    length: float
    width: float
    belt: float
    roof: float
    nose: float
    rear_low: float
    rear_high: float
    front_high: float
    front_low: float
    taper: float
    panelled: bool = False


SHAPES = {
    'saloon': Shape(4.6, 1.80, 0.96, 1.44, 0.78, 0.55, 1.15, 2.55, 3.45, 0.77),
    'hatchback': Shape(4.0, 1.74, 0.97, 1.50, 0.82, 0.10, 0.48, 2.25, 3.05, 0.80),
    'suv': Shape(4.5, 1.86, 1.12, 1.70, 0.98, 0.06, 0.34, 2.75, 3.50, 0.83),
    'van': Shape(5.2, 1.95, 1.22, 2.25, 0.98, 0.0, 0.07, 3.75, 4.55, 0.91, True),
}
KERB_HEIGHT_OF_BODY = 0.26
WHEEL_RADIUS = 0.32


class Vehicle:
    """One vehicle's panels, its shadow on the ground and its size."""

    def __init__(self, rng: textures.Rng, shape: Shape, paint: float) -> None:
        self.shape = shape
        self._rng = rng
        self._paint = paint
        self.mesh = join(self._ends() + self._underside() + self._sides()
                         + self._top()).marked(VEHICLE)
        margin = SHADOW_MARGIN_M
        wide, long = shape.width + 2 * margin, shape.length + 2 * margin
        self.shadow = patch(textures.ground_shadow(shape.width, shape.length, margin),
                            (-wide / 2 + 0.12, 0.0, -margin), (wide, 0.0, 0.0), (0.0, 0.0, long),
                            kind=SHADE)

    def _canvas(self, width: float, height: float, shade: float) -> textures.Canvas:
        tone = float(np.clip(self._paint * shade, 18, 235))
        return textures.Canvas(width, height, TEXELS_PER_M, tone)

    def _texture(self, canvas: textures.Canvas, cutout: np.ndarray | None = None) -> Texture:
        return canvas.texture(self._rng, 5.0, 64, 0.8, cutout)

    def _ends(self) -> list[Mesh]:
        shape, width = self.shape, self.shape.width
        rear = shape.belt - KERB_HEIGHT_OF_BODY
        front = shape.nose - KERB_HEIGHT_OF_BODY
        return [upright(self._rear(rear), -width / 2, -shape.belt, 0.0, width, rear,
                        outward=(0, 0, -1)),
                upright(self._front(front), width / 2, -shape.nose, shape.length, -width, front,
                        outward=(0, 0, 1))]

    def _underside(self) -> list[Mesh]:
        width, length = self.shape.width, self.shape.length
        half, tall = width / 2, WHEEL_RADIUS + 0.1
        tyres = textures.Canvas(0.24, tall, TEXELS_PER_M, 30).texture(self._rng, 4)
        under = textures.Canvas(width, 0.3, 32, 24).texture(self._rng, 3)
        return [upright(texture, x, top, length - inset if ahead > 0 else inset, wide, height,
                        outward=(0, 0, ahead))
                for texture, x, top, inset, wide, height in (
                    (tyres, -half + 0.04, -tall, 0.5, 0.24, tall),
                    (tyres, half - 0.28, -tall, 0.5, 0.24, tall),
                    (under, -half + 0.1, -0.32, 0.9, width - 0.2, 0.24))
                for ahead in (-1, 1)]

    def _rear(self, height: float) -> Texture:
        width = self.shape.width
        canvas = self._canvas(width, height, 0.9)
        tone = canvas.tone
        canvas.gradient(0, 0, width, 0.4 * height, min(245, 1.22 * tone + 8), tone)
        canvas.gradient(0, 0.55 * height, width, height, tone * 0.95, tone * 0.62)
        bumper = 0.62 * height
        canvas.box(0, bumper, width, bumper + 0.015, 0.55 * tone)
        canvas.box(0.05, height - 0.12, width - 0.05, height, 42)
        lamp = (0.30, 0.22) if not self.shape.panelled else (0.15, 0.36)
        for x, side in ((0.03, 1), (width - 0.03, -1)):
            low, high = sorted((x, x + side * lamp[0]))
            canvas.box(low, 0.06, high, 0.06 + lamp[1], 72)
            canvas.box(low + 0.02, 0.08, high - 0.02, 0.06 + 0.55 * lamp[1], 104)
            bulb = x + side * lamp[0] * 0.3
            canvas.box(bulb - 0.035, 0.065 + 0.6 * lamp[1], bulb + 0.035, 0.05 + lamp[1], 205)
            canvas.box(x + side * 0.12 - 0.07, height - 0.2, x + side * 0.12 + 0.07,
                       height - 0.16, 130)
        if not self.shape.panelled:
            canvas.line([(0.34, 0.02), (0.34, bumper - 0.03), (width - 0.34, bumper - 0.03),
                         (width - 0.34, 0.02)], 0.014, 0.6 * tone)
        else:
            canvas.line([(width / 2, 0), (width / 2, bumper)], 0.02, 0.5 * tone)
            canvas.box(width / 2 + 0.05, 0.12, width / 2 + 0.22, 0.15, 40)
        canvas.disc(width / 2, 0.08, 0.045, 215 if tone < 150 else 95)
        self._plate(canvas, width / 2, 0.34 * height)
        return self._texture(canvas)

    def _plate(self, canvas: textures.Canvas, x: float, y: float) -> None:
        canvas.box(x - 0.28, y - 0.015, x + 0.28, y + 0.135, 40)
        canvas.box(x - 0.26, y, x + 0.26, y + 0.12, 228)
        letters = ''.join(self._rng.choice(list('ABCDEFHKLMNPRSTUVXZ'), 2))
        text = f'{letters} {self._rng.integers(100, 999)}'
        size = 0.105 * canvas.scale / 22
        (wide, _), _ = cv2.getTextSize(text, cv2.FONT_HERSHEY_DUPLEX, size, 1)
        cv2.putText(canvas.grey, text, (round(x * canvas.scale - wide / 2),
                                        round((y + 0.098) * canvas.scale)),
                    cv2.FONT_HERSHEY_DUPLEX, size, 30.0, 1, cv2.LINE_AA)

    def _front(self, height: float) -> Texture:
        width = self.shape.width
        canvas = self._canvas(width, height, 0.9)
        tone = canvas.tone
        canvas.gradient(0, 0.5 * height, width, height, tone, 0.6 * tone)
        canvas.box(0.34, 0.05, width - 0.34, 0.24, 36)
        for k in range(3):
            canvas.box(0.36, 0.08 + 0.055 * k, width - 0.36, 0.095 + 0.055 * k, 115)
        canvas.disc(width / 2, 0.14, 0.06, 215)
        for x in (0.18, width - 0.18):
            canvas.box(x - 0.15, 0.04, x + 0.14, 0.22, 88)
            canvas.disc(x, 0.13, 0.085, 245)
            canvas.disc(x, 0.13, 0.04, 195)
        canvas.box(0.2, height - 0.16, width - 0.2, height - 0.05, 34)
        canvas.box(0, 0.26, width, 0.275, 0.6 * tone)
        self._plate(canvas, width / 2, min(0.29, height - 0.16))
        return self._texture(canvas)

    def _sides(self) -> list[Mesh]:
        shape, half = self.shape, self.shape.width / 2
        lean = half * (1 - shape.taper)
        rise = shape.roof - shape.belt
        first, last = shape.rear_low, shape.front_low
        reach = last - first
        outline = [((shape.rear_high - first) / reach, 0.0),
                   ((shape.front_high - first) / reach, 0.0), (1.0, 1.0), (0.0, 1.0)]
        sides = []
        for side, shade in ((-1, 1.06), (1, 0.66)):
            sides.append(lengthwise(self._flank(shade), side * half, -shape.belt, 0.0,
                                    shape.length, shape.belt, outward=(side, 0, 0)))
            sides.append(patch(self._side_glass(shade), (side * (half - lean), -shape.roof, first),
                               (0.0, 0.0, reach), (side * lean, rise, 0.0), outline=outline,
                               outward=(side, 0, 0)))
        return sides

    def _flank(self, shade: float) -> Texture:
        shape, belt = self.shape, self.shape.belt
        canvas = self._canvas(shape.length, belt, shade)
        tone = canvas.tone
        canvas.gradient(0, 0, shape.length, 0.3 * belt, min(240, 1.18 * tone + 6), tone)
        canvas.gradient(0, 0.45 * belt, shape.length, belt, tone * 0.92, tone * 0.55)
        canvas.box(0, belt - KERB_HEIGHT_OF_BODY - 0.1, shape.length, belt, 38)
        floor = belt - KERB_HEIGHT_OF_BODY + 0.03
        for z in (shape.rear_high + 0.25, 0.5 * (shape.rear_low + shape.front_low) + 0.25,
                  shape.front_low - 0.12):
            canvas.line([(z, 0.03), (z, floor - 0.1)], 0.014, 0.5 * tone)
            canvas.box(z - 0.28, 0.12, z - 0.12, 0.15, 0.5 * tone)
        canvas.box(0, 0.08, 0.14, 0.24, 80)
        canvas.box(shape.length - 0.2, belt - shape.nose + 0.06, shape.length,
                   belt - shape.nose + 0.2, 225)
        mask = textures.Canvas(shape.length, belt, TEXELS_PER_M, 0)
        body = [(0.0, 0.0), (shape.front_low, 0.0), (shape.length, belt - shape.nose),
                (shape.length, floor), (0.0, floor)]
        mask.polygon(body, 255)
        for z in (0.82, shape.length - 0.82):
            y = belt - WHEEL_RADIUS
            canvas.disc(z, y, WHEEL_RADIUS + 0.06, 16)
            canvas.disc(z, y, WHEEL_RADIUS, 34)
            canvas.disc(z, y, 0.21, 168 * (0.6 + 0.4 * shade))
            for k in range(5):
                a = 2 * np.pi * k / 5 + 0.3
                canvas.disc(z + 0.135 * np.cos(a), y + 0.135 * np.sin(a), 0.048, 60)
            canvas.disc(z, y, 0.05, 110)
            mask.disc(z, y, WHEEL_RADIUS, 255)
        return self._texture(canvas, mask.grey > 127)

    def _side_glass(self, shade: float) -> Texture:
        shape = self.shape
        first, reach = shape.rear_low, shape.front_low - shape.rear_low
        height = float(np.hypot(shape.roof - shape.belt, shape.width / 2 * (1 - shape.taper)))
        canvas = self._canvas(reach, height, shade)

        top, bottom = 0.1, height - 0.05
        (a_top, a_bottom), (b_top, b_bottom) = (
            [high + (low - high) * (y / height) - first + pad for y in (top, bottom)]
            for low, high, pad in ((shape.rear_low, shape.rear_high, 0.16),
                                   (shape.front_low, shape.front_high, -0.1)))
        if shape.panelled:
            a_top = a_bottom = shape.front_high - first - 0.75
        canvas.polygon([(a_top, top), (b_top, top), (b_bottom, bottom), (a_bottom, bottom)], GLASS)
        canvas.polygon([(a_top + 0.1, top), (a_top + 0.5, top), (a_bottom + 0.4, bottom),
                        (a_bottom + 0.1, bottom)], GLASS + 26)
        if not shape.panelled:
            middle = 0.5 * (a_bottom + b_bottom)
            canvas.box(middle - 0.05, top - 0.01, middle + 0.05, bottom + 0.01, 30)
        else:
            tone = canvas.tone
            canvas.line([(0.15, 0.25), (a_top - 0.3, 0.25), (a_top - 0.3, height - 0.1),
                         (0.15, height - 0.1), (0.15, 0.25)], 0.02, 0.8 * tone)
        return self._texture(canvas)

    def _top(self) -> list[Mesh]:
        shape, half = self.shape, self.shape.width / 2

        def panel(half: float, height: float, first: float, last: float, fall: float, shade: float
                  ) -> Mesh:
            length = last - first
            return patch(self._panel(length, shade), (-half, -height, first), (2 * half, 0.0, 0.0),
                         (0.0, fall, length), outward=(0, -1, 0))

        panels = [panel(half * shape.taper, shape.roof, shape.rear_high, shape.front_high, 0.0,
                        1.1),
                  panel(half, shape.belt, shape.front_low, shape.length, shape.belt - shape.nose,
                        1.08),
                  self._slope(shape.rear_high, shape.rear_low, -1),
                  self._slope(shape.front_high, shape.front_low, 1)]
        if shape.rear_low > 0:
            panels.append(panel(half, shape.belt, 0.0, shape.rear_low, 0.0, 1.15))
        return panels

    def _panel(self, length: float, shade: float) -> Texture:
        canvas = self._canvas(self.shape.width, length, shade)
        width = self.shape.width
        for start, end in ((0.25, 0.32), (width - 0.25, width - 0.32)):
            canvas.line([(start, 0), (end, length)], 0.02, 0.86 * canvas.tone)
        return self._texture(canvas)

    def _slope(self, top_z: float, bottom_z: float, direction: int) -> Mesh:
        """Rear window (direction -1) or windscreen (1), a trapezium from roof to belt."""
        shape, half = self.shape, self.shape.width / 2
        rise = shape.roof - shape.belt
        side = -direction
        inset = 0.5 * (1 - shape.taper)
        return patch(self._screen(float(np.hypot(rise, top_z - bottom_z)), direction < 0),
                     (-side * half, -shape.roof, top_z), (2 * side * half, 0.0, 0.0),
                     (0.0, rise, bottom_z - top_z),
                     outline=[(inset, 0.0), (1 - inset, 0.0), (1.0, 1.0), (0.0, 1.0)],
                     outward=(0, -0.2, direction))

    def _screen(self, height: float, rear: bool) -> Texture:
        width, taper = self.shape.width, self.shape.taper
        canvas = self._canvas(width, height, 1.05)
        low, high = 0.1, width * (1 - taper) / 2 + 0.1
        top, bottom = 0.09, height - (0.07 if rear else 0.03)
        if self.shape.panelled and rear:
            canvas.line([(width / 2, 0), (width / 2, height)], 0.02, 60)
            bottom = 0.62 * height
        glass = [(high, top), (width - high, top), (width - low, bottom), (low, bottom)]
        canvas.polygon(glass, GLASS)
        middle = width / 2
        canvas.polygon([(high + 0.05, top), (middle, top), (middle - 0.25, bottom),
                        (low + 0.05, bottom)], GLASS + 24)
        for x in (0.31 * width, 0.69 * width):
            canvas.box(x - 0.11, bottom - 0.2, x + 0.11, bottom - 0.02, 31)
            canvas.disc(x, bottom - 0.2, 0.08, 31)
        if rear:
            canvas.box(middle - 0.25, top + 0.01, middle + 0.25, top + 0.035, 96)
            canvas.line([(middle, bottom - 0.01), (middle - 0.3, bottom - 0.16)], 0.02, 16)
        else:
            canvas.disc(0.63 * width, bottom - 0.05, 0.15, 20)
            canvas.box(middle - 0.09, top, middle + 0.09, top + 0.06, 18)
        if self.shape.panelled and rear:
            canvas.box(middle - 0.04, 0, middle + 0.04, height, float(canvas.grey[2, 2]))
        return self._texture(canvas)


def fleet(rng: textures.Rng) -> list[Vehicle]:
    """A dozen vehicles of all shapes and paints."""
    paints = (196, 60, 128, 210, 40, 158, 96, 180, 72, 205, 116, 145)
    kinds = ('saloon', 'hatchback', 'van', 'suv', 'hatchback', 'saloon', 'suv', 'hatchback',
             'saloon', 'van', 'suv', 'saloon')
    return [Vehicle(rng, SHAPES[kind], paint) for kind, paint in zip(kinds, paints, strict=True)]
