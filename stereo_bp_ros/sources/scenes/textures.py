"""Surfaces of the synthetic street: asphalt, walls, vehicles, foliage and sky, all grey.

Every surface carries grain at all scales, because a matcher at any resolution needs some contrast.
"""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np

from stereo_bp_ros.sources.scenes.meshes import Texture

Rng = np.random.Generator

SUBPIXEL_BITS = 4


def noise(rng: Rng, shape: tuple[int, ...], coarsest: int, finest: int = 1,
          persistence: float = 0.8) -> np.ndarray:
    """Fractal value noise, float32, mean 0, standard deviation 1, repeating at its edges.

    `coarsest` and `finest` are sizes of grains in texels, powers of two; each octave has
    `persistence` times the amplitude of the next coarser one.
    """
    height, width = shape
    total = np.zeros(shape, np.float32)
    grain, amplitude = coarsest, 1.0
    while grain >= finest:
        cells = (max(2, -(-height // grain)), max(2, -(-width // grain)))
        grid = np.pad(rng.standard_normal(cells, dtype=np.float32), 2, mode='wrap')
        if grain == 1:
            octave = grid[2:-2, 2:-2]
        else:
            rows, cols = (((np.arange(size, dtype=np.float32) + 0.5) * (count / size) + 1.5) * 4
                          + 1.5 for size, count in zip(shape, cells, strict=True))
            x, y = np.meshgrid(cols, rows)
            octave = cv2.remap(cv2.resize(grid, None, fx=4, fy=4, interpolation=cv2.INTER_CUBIC),
                               x, y, cv2.INTER_LINEAR)
        total += np.float32(amplitude) * octave
        grain //= 2
        amplitude *= persistence
    total -= total.mean()
    return total / max(float(total.std()), 1e-6)


class Canvas:
    """A grey picture drawn in metres, y down from the top edge; `tone` is its ground's grey."""

    def __init__(self, width_m: float, height_m: float, texels_per_m: float, grey: float) -> None:
        self.scale = texels_per_m
        shape = (max(4, round(height_m * texels_per_m)), max(4, round(width_m * texels_per_m)))
        self.grey = np.full(shape, grey, np.uint8)
        self.tone = float(self.grey[0, 0])

    def _subpixels(self, corners: Sequence[Sequence[float]]) -> list[np.ndarray]:
        points = np.array(corners, float) * self.scale - 0.5
        return [np.rint(points * 2 ** SUBPIXEL_BITS).astype(np.int32)]

    def polygon(self, corners: Sequence[Sequence[float]], grey: float) -> None:
        """Fill a polygon."""
        cv2.fillPoly(self.grey, self._subpixels(corners), float(grey), cv2.LINE_AA, SUBPIXEL_BITS)

    def box(self, x0: float, y0: float, x1: float, y1: float, grey: float) -> None:
        """Fill an upright rectangle."""
        self.polygon([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], grey)

    def disc(self, x: float, y: float, radius: float, grey: float) -> None:
        """Fill a circle."""
        unit = self.scale * 2 ** SUBPIXEL_BITS
        half = 2 ** (SUBPIXEL_BITS - 1)
        cv2.circle(self.grey, (round(x * unit) - half, round(y * unit) - half),
                   round(radius * unit), float(grey), -1, cv2.LINE_AA, SUBPIXEL_BITS)

    def line(self, corners: Sequence[Sequence[float]], width_m: float, grey: float) -> None:
        """Draw an open polyline."""
        cv2.polylines(self.grey, self._subpixels(corners), False, float(grey),
                      max(1, round(width_m * self.scale)), cv2.LINE_AA, SUBPIXEL_BITS)

    def gradient(self, x0: float, y0: float, x1: float, y1: float, top: float, bottom: float
                 ) -> None:
        """Fill an upright rectangle from one grey at the top to another at the bottom."""
        a, b = round(y0 * self.scale), round(y1 * self.scale)
        c, d = round(x0 * self.scale), round(x1 * self.scale)
        if b > a and d > c:
            self.grey[a:b, c:d] = np.linspace(top, bottom, b - a)[:, None]

    def texture(self, rng: Rng, grain: float, coarsest: int = 64, persistence: float = 0.8,
                cutout: np.ndarray | None = None) -> Texture:
        """The picture under grain of this standard deviation."""
        own = noise(rng, self.grey.shape, coarsest, persistence=persistence)
        return Texture(self.grey + grain * own, cutout)


ROAD_PERIOD_M = 32.0
ROAD_TEXELS_ACROSS = 144
ROAD_TEXELS_ALONG = 64


def road(rng: Rng, left: float, right: float, lanes: Sequence[float], dashes: Sequence[float],
         edges: Sequence[float]) -> Texture:
    """Asphalt between two kerbs, one period long, texture rows along the road.

    `lanes` are the middles of the lanes, `dashes` and `edges` where broken and full lines run.
    """
    width = right - left
    shape = (round(ROAD_PERIOD_M * ROAD_TEXELS_ALONG), round(width * ROAD_TEXELS_ACROSS))
    x = left + (np.arange(shape[1], dtype=np.float32) + 0.5) / ROAD_TEXELS_ACROSS
    z = (np.arange(shape[0], dtype=np.float32) + 0.5) / ROAD_TEXELS_ALONG
    grey = np.full(shape, 112, np.float32)
    tracks = sum(np.exp(-((np.abs(x - lane) - 0.8) / 0.28) ** 2) for lane in lanes)
    oil = sum(np.exp(-((x - lane) / 0.3) ** 2) for lane in lanes)
    gutter = np.exp(-np.minimum(x - left, right - x) / 0.25)
    grey -= 9 * np.asarray(tracks) + 5 * np.asarray(oil) + 16 * gutter
    for _ in range(5):
        _repair(rng, grey, left, right)
    for _ in range(14):
        _crack(rng, grey)
    paint = np.zeros(shape, np.float32)
    for place in dashes:
        paint[np.ix_((z % 8.0 > 1.0) & (z % 8.0 < 4.5), np.abs(x - place) < 0.075)] = 1
    for place in edges:
        paint[:, np.abs(x - place) < 0.06] = 1
    worn = noise(rng, shape, 64, persistence=0.9)
    paint *= np.clip(1.25 - 0.5 * np.maximum(worn, 0), 0, 1)
    grey += paint * (214 - grey)
    for lane in lanes[:2]:
        _manhole(rng, grey, lane - left, float(rng.uniform(4, ROAD_PERIOD_M - 4)))
    return Texture(grey + 11.0 * noise(rng, shape, 64, persistence=1.12)
                   + 4.0 * noise(rng, shape, 512, 128, 0.7))


def _repair(rng: Rng, grey: np.ndarray, left: float, right: float) -> None:
    across, along = ROAD_TEXELS_ACROSS, ROAD_TEXELS_ALONG
    width, length = rng.uniform(0.7, 2.2), rng.uniform(1.0, 4.0)
    x = round(rng.uniform(0, right - left - width) * across)
    z = round(rng.uniform(0, ROAD_PERIOD_M - length) * along)
    spot = grey[z:z + round(length * along), x:x + round(width * across)]
    spot += rng.choice([-17.0, -12.0, 9.0])
    seam = np.ones(spot.shape, bool)
    seam[2:-2, 4:-4] = False
    spot[seam] -= 22


def _crack(rng: Rng, grey: np.ndarray) -> None:
    along = ROAD_TEXELS_ALONG / ROAD_TEXELS_ACROSS
    heading = rng.uniform(0, np.pi) + np.cumsum(rng.normal(0, 0.22, 70))
    steps = rng.uniform(3, 9, 70)[:, None] * np.stack([np.cos(heading), np.sin(heading)], axis=1)
    path = np.cumsum(steps, axis=0) * (1, along) + rng.uniform(0, 1, 2) * grey.shape[::-1]
    mark = np.zeros(grey.shape, np.uint8)
    cv2.polylines(mark, [path.astype(np.int32)], False, 34.0, 2, cv2.LINE_AA)
    grey -= mark


def _manhole(rng: Rng, grey: np.ndarray, x: float, z: float) -> None:
    centre = (round(x * ROAD_TEXELS_ACROSS), round(z * ROAD_TEXELS_ALONG))
    for radius, shade in ((0.36, 62.0), (0.32, 92.0), (0.25, 74.0), (0.21, 90.0)):
        axes = (round(radius * ROAD_TEXELS_ACROSS), round(radius * ROAD_TEXELS_ALONG))
        cv2.ellipse(grey, centre, axes, 0, 0, 360, shade + rng.uniform(-4, 4), -1)


PAVEMENT_PERIOD_M = 16.0


def pavement(rng: Rng, width: float, kerb_left: bool) -> Texture:
    """Slabs of 0.5 m with a kerb stone along one edge, one period long."""
    across, along = 80, 64
    shape = (round(PAVEMENT_PERIOD_M * along), round(width * across))
    x = (np.arange(shape[1]) + 0.5) / across
    if not kerb_left:
        x = x[::-1]
    z = (np.arange(shape[0]) + 0.5) / along
    slab = rng.normal(0, 7, (int(PAVEMENT_PERIOD_M * 2), int(width * 2) + 2))
    grey = 146 + slab[np.ix_((z * 2).astype(int), (x * 2).astype(int))].astype(np.float32)
    joint = ((z % 0.5 < 0.03)[:, None] | (x % 0.5 < 0.03)) & (x > 0.2)
    grey[joint] -= 34
    kerb = x < 0.18
    grey[:, kerb] = 172
    grey[np.ix_(z % 1.0 < 0.03, kerb)] = 110
    grey[:, (x > 0.18) & (x < 0.21)] = 95
    return Texture(grey + 9.0 * noise(rng, shape, 128, persistence=0.9))


def kerb_face(rng: Rng, height: float) -> Texture:
    """The upright side of the kerb stones, one period of the pavement long, turned on its side."""
    shape = (round(PAVEMENT_PERIOD_M * 64), max(8, round(height * 96)))
    grey = np.full(shape, 128, np.float32)
    grey[np.arange(shape[0]) % 64 < 2] = 84
    return Texture(grey + 9.0 * noise(rng, shape, 32, persistence=0.95))


FACADE_TEXELS_PER_M = 52


def facade(rng: Rng, length: float, height: float, light: float) -> Texture:
    """A house front: plinth, ground floor with shops or doors, rows of windows, cornice."""
    wall = light * rng.uniform(135, 215)
    canvas = Canvas(length, height, FACADE_TEXELS_PER_M, wall)
    relief = 0.8 * wall
    if rng.random() < 0.45:
        _bricks(rng, canvas, wall)
    storey = float(rng.uniform(2.9, 3.3))
    ground_floor = min(3.6, height - 0.5)
    base = height - ground_floor
    window = (float(rng.uniform(0.95, 1.3)), float(rng.uniform(1.5, 1.85)))
    pitch = length / max(2, round(length / float(rng.uniform(2.1, 2.9))))
    style = int(rng.integers(3))
    y = base - storey
    while y > 0.35:
        for k in range(round(length / pitch)):
            _window(rng, canvas, (k + 0.5) * pitch - window[0] / 2, y + 0.45, window, light, style)
        if style != 1:
            canvas.box(0, y + storey - 0.08, length, y + storey, wall * 1.12)
        y -= storey
    _ground_floor(rng, canvas, base, length, height, pitch, wall, light)
    canvas.box(0, 0, length, 0.3, min(250, wall * 1.15))
    canvas.box(0, 0.3, length, 0.38, relief * 0.7)
    for x in (0.0, length - 0.1):
        canvas.box(x, 0.3, x + 0.1, height, relief)
    return canvas.texture(rng, 6.5, 256, 0.88)


def _bricks(rng: Rng, canvas: Canvas, wall: float) -> None:
    height, width = canvas.grey.shape
    course, brick = 0.12 * canvas.scale, 0.32 * canvas.scale
    row = (np.arange(height) / course).astype(int)
    col = ((np.arange(width)[None] / brick) + 0.5 * (row[:, None] % 2)).astype(int)
    tone = rng.normal(0, 8, (row[-1] + 1, int(col.max()) + 1))
    grey = wall + tone[row[:, None], col]
    grey[np.arange(height) % course < 1.2] += 16
    canvas.grey[:] = np.clip(grey, 0, 255)


def _window(rng: Rng, canvas: Canvas, x: float, y: float, size: tuple[float, float], light: float,
            style: int) -> None:
    w, h = size
    frame = 225 * light
    surround = (225, 95, 175)[style] * light
    canvas.box(x - 0.14, y - 0.14, x + w + 0.14, y + h + 0.08, surround)
    canvas.box(x - 0.2, y + h + 0.05, x + w + 0.2, y + h + 0.17, 0.62 * surround)
    canvas.box(x, y, x + w, y + h, frame)
    top, bottom = rng.uniform(40, 105), rng.uniform(25, 70)
    for k in range(2):
        a = x + 0.07 + k * (w - 0.06) / 2
        canvas.gradient(a, y + 0.07, a + (w - 0.26) / 2 + 0.05, y + h - 0.06, top, bottom)
    what = rng.random()
    if what < 0.35:
        drop = rng.uniform(0.2, 0.8) * h
        canvas.box(x + 0.07, y + 0.07, x + w - 0.07, y + drop, rng.uniform(130, 205) * light)
        canvas.line([(x + w / 2, y), (x + w / 2, y + h)], 0.05, frame)
    elif what < 0.7:
        side = rng.uniform(0.15, 0.35) * w
        tone = rng.uniform(120, 190) * light
        canvas.box(x + 0.07, y + 0.07, x + side, y + h - 0.06, tone)
        canvas.box(x + w - side, y + 0.07, x + w - 0.07, y + h - 0.06, tone)
    canvas.box(x, y + 0.33 * h, x + w, y + 0.33 * h + 0.05, frame)


def _ground_floor(rng: Rng, canvas: Canvas, y: float, length: float, height: float, pitch: float,
                  wall: float, light: float) -> None:
    shop = rng.random() < 0.5
    door = int(rng.integers(round(length / pitch)))
    for k in range(round(length / pitch)):
        x = k * pitch
        if k == door:
            canvas.box(x + pitch / 2 - 0.65, y + 0.9, x + pitch / 2 + 0.65, height, 205 * light)
            tone = rng.uniform(40, 90)
            canvas.box(x + pitch / 2 - 0.52, y + 1.03, x + pitch / 2 + 0.52, height, tone)
            canvas.box(x + pitch / 2 - 0.4, y + 1.2, x + pitch / 2 + 0.4, y + 1.9, tone + 45)
            canvas.box(x + pitch / 2 - 0.4, y + 2.1, x + pitch / 2 + 0.4, height - 0.2, tone + 14)
        elif shop:
            canvas.box(x + 0.12, y + 0.75, x + pitch - 0.12, height - 0.45, 60)
            canvas.gradient(x + 0.2, y + 0.83, x + pitch - 0.2, height - 0.53, 95, 40)
            for _ in range(7):
                a = rng.uniform(x + 0.25, x + pitch - 0.7)
                b = rng.uniform(y + 1.4, height - 0.9)
                canvas.box(a, b, a + rng.uniform(0.15, 0.4), height - 0.55, rng.uniform(60, 215))
        else:
            _window(rng, canvas, x + pitch / 2 - 0.55, y + 1.1, (1.1, 1.5), light, 2)
    if shop:
        tone = float(rng.choice([60.0, 110.0, 225.0]))
        canvas.box(0.15, y + 0.1, length - 0.15, y + 0.68, tone)
        ink = 235 if tone < 150 else 45
        x = 0.8
        while x < length - 0.8:
            w = rng.uniform(0.1, 0.3)
            if rng.random() < 0.8:
                canvas.box(x, y + 0.22 + rng.choice([0.0, 0.1]), x + w, y + 0.56, ink)
                canvas.box(x + 0.06, y + 0.33, x + w - 0.06, y + 0.43, tone)
            x += w + 0.08
    canvas.box(0, height - 0.4, length, height, 0.6 * wall)


def gable(rng: Rng, width: float, height: float, light: float) -> Texture:
    """A plain side wall."""
    canvas = Canvas(width, height, 32, light * rng.uniform(125, 190))
    if rng.random() < 0.6:
        _bricks(rng, canvas, canvas.tone)
    return canvas.texture(rng, 9, 128, 0.9)


def roof(rng: Rng, length: float, slope: float, light: float) -> Texture:
    """Rows of tiles."""
    scale = 32
    shape = (round(slope * scale), round(length * scale))
    tone = light * rng.uniform(70, 120)
    row = np.arange(shape[0]) // 10
    tiles = rng.normal(0, 9, (row[-1] + 1, shape[1] // 8 + 2))
    col = (np.arange(shape[1])[None] + 4 * (row[:, None] % 2)) // 8
    grey = tone + tiles[row[:, None], col]
    grey[np.arange(shape[0]) % 10 < 2] -= 26
    return Texture(grey + 7.0 * noise(rng, shape, 64, persistence=0.85))


def crown(rng: Rng, width: float, height: float, light: float) -> Texture:
    """Foliage with an irregular outline and holes."""
    scale = 56
    shape = (round(height * scale), round(width * scale))
    y, x = np.mgrid[0:shape[0], 0:shape[1]].astype(np.float32)
    y, x = (y + 0.5) / shape[0] * 2 - 1, (x + 0.5) / shape[1] * 2 - 1
    blobs = noise(rng, shape, 64, 16, 0.75)
    leaves = noise(rng, shape, 16, 2, 0.95)
    inside = 0.84 - np.sqrt(x ** 2 + y ** 2) + 0.11 * blobs + 0.05 * leaves > 0
    inside &= leaves + 0.6 * blobs > -2.0
    sun = 14 * (-y - 0.5 * x)
    return Texture(light * (78 + sun + 17 * blobs + 24 * leaves), inside)


def bark(rng: Rng, light: float, height: float, radius: float) -> Texture:
    """A trunk or pole, shaded as a cylinder lit from the left."""
    shape = (round(height * 48), 24)
    across = np.linspace(-1, 1, shape[1], dtype=np.float32)
    shade = 0.55 + 0.5 * np.clip(0.8 * np.sqrt(1 - across ** 2 * 0.96) - 0.5 * across, 0, 1)
    grain = noise(rng, shape, 32, persistence=0.9) * (15 if radius > 0.1 else 7)
    return Texture(light * 105 * shade + grain)


def pales(rng: Rng, length: float, height: float, period: float, width: float,
          rails: tuple[tuple[float, float], ...], grey: float) -> Texture:
    """Upright pales, all alike, of a width at every period from 0, and rails between heights.

    The rails' heights are from the top edge; all lengths in metres, a period is whole texels.
    """
    scale = 64
    x = np.arange(round(period * scale)) / scale
    y = (np.arange(round(height * scale)) / scale)[:, None]
    is_rail = np.any([(y >= top) & (y < bottom) for top, bottom in rails], axis=0)
    round_off = 0.7 + 0.5 * np.sqrt(np.clip(1 - (2 * x / width - 1) ** 2, 0, 1))
    one = np.where(is_rail, grey * 1.1, grey * round_off)
    one += 7 * noise(rng, one.shape, 16)
    repeats = (1, round(length / period))
    return Texture(np.tile(one, repeats), np.tile(is_rail | (x < width), repeats))


def sign(rng: Rng, kind: int) -> Texture:
    """A road sign: 0 a speed limit, 1 a warning triangle, 2 a direction board."""
    if kind == 2:
        canvas = Canvas(1.5, 0.9, 110, 70)
        canvas.box(0.05, 0.05, 1.45, 0.85, 225)
        canvas.box(0.09, 0.09, 1.41, 0.81, 80)
        for row, words in ((0.25, (0.45, 0.3)), (0.55, (0.3, 0.5))):
            x = 0.2
            for word in words:
                for _ in range(int(word / 0.1)):
                    canvas.box(x, row, x + 0.065, row + 0.14, 230)
                    x += 0.1
                x += 0.08
        return canvas.texture(rng, 4)
    canvas = Canvas(0.8, 0.8, 120, 200)
    mask = Canvas(0.8, 0.8, 120, 0)
    if kind == 0:
        mask.disc(0.4, 0.4, 0.39, 255)
        canvas.disc(0.4, 0.4, 0.39, 95)
        canvas.disc(0.4, 0.4, 0.29, 232)
        cv2.putText(canvas.grey, '30', (20, 62), cv2.FONT_HERSHEY_DUPLEX, 1.35, 30.0, 5,
                    cv2.LINE_AA)
    else:
        mask.polygon([(0.4, 0.03), (0.79, 0.75), (0.01, 0.75)], 255)
        canvas.grey[:] = 95
        canvas.polygon([(0.4, 0.2), (0.65, 0.67), (0.15, 0.67)], 232)
        canvas.box(0.37, 0.34, 0.43, 0.54, 30)
        canvas.box(0.37, 0.58, 0.43, 0.63, 30)
    return canvas.texture(rng, 4, cutout=mask.grey > 127)


def skyline(rng: Rng, width: float, height: float) -> Texture:
    """Distant hazy roofs with a tower."""
    canvas = Canvas(width, height, 8, 190)
    mask = Canvas(width, height, 8, 0)
    x = -2.0
    while x < width:
        w, top = rng.uniform(3, 8), rng.uniform(0.45, 0.8) * height
        tone = rng.uniform(150, 185)
        shape = [(x, height), (x, top), (x + w / 2, top - rng.uniform(0, 2.5)), (x + w, top),
                 (x + w, height)]
        canvas.polygon(shape, tone)
        mask.polygon(shape, 255)
        for k in range(int(w / 1.2)):
            for storey in range(int((height - top) / 3)):
                canvas.box(x + 0.4 + 1.2 * k, top + 0.8 + 3 * storey, x + 0.9 + 1.2 * k,
                           top + 2.2 + 3 * storey, tone - 28)
        x += w
    middle = 0.47 * width
    tower = [(middle, 0.02 * height), (middle + 1.6, 0.3 * height), (middle + 1.6, height),
             (middle - 1.6, height), (middle - 1.6, 0.3 * height)]
    canvas.polygon(tower, 158)
    mask.polygon(tower, 255)
    return canvas.texture(rng, 5, cutout=mask.grey > 127)


def sky(rng: Rng, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Sky for rays with these tangents of azimuth (columns) and elevation (rows), uint8."""
    size = 1024
    clouds = noise(rng, (size, size), 256, 2, 0.55)
    up = np.maximum(rows, 0.0)[:, None].astype(np.float32)
    # A cloud layer overhead is seen compressed towards the horizon.
    reach = 1.0 / (up + 0.16)
    u = (columns[None].astype(np.float32) * reach * 190 + 300) % size
    v = np.broadcast_to(reach * 210, u.shape) % size
    layer = cv2.remap(clouds, u, np.ascontiguousarray(v), cv2.INTER_LINEAR,
                      borderMode=cv2.BORDER_WRAP)
    lit = cv2.remap(clouds, (u + 14) % size, np.ascontiguousarray((v + 18) % size),
                    cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
    cover = np.clip((layer + 0.15) * 1.1, 0, 1)
    cover = cover * cover * (3 - 2 * cover)
    blue = 226 - 92 * (1 - np.exp(-2.6 * up))
    cloud = np.clip(238 + 12 * (layer - lit) - 9 * np.maximum(layer - 0.7, 0), 0, 252)
    haze = np.exp(-9 * up)
    cover = cover * (1 - haze)
    return np.clip(np.rint(blue + cover * (cloud - blue)), 0, 255).astype(np.uint8)


def ground_shadow(width: float, length: float, margin: float) -> Texture:
    """Factor (255 = none) that darkens the ground under a vehicle."""
    scale = 40
    grey = np.full((round((length + 2 * margin) * scale), round((width + 2 * margin) * scale)),
                   255, np.float32)
    edge = round(margin * scale)
    grey[edge:-edge, edge:-edge] = 62
    return Texture(cv2.GaussianBlur(grey, (0, 0), margin * scale / 3.2))
