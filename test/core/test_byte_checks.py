"""Bytes of images that are not what the encoding, the step or the byte order says."""

from __future__ import annotations

import pathlib

import cv2
import numpy as np
import pytest

from stereo_bp_ros import IssueCode, MatcherConfig, RawImage, examine_pair
from stereo_bp_ros.checks.byte_checks import check_bytes
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from test.node.stand_ins import Bench, make_image
from test.slanted_plane import SlantedPlane

CONFIG = MatcherConfig(disparity_range=64)
SETS = ('middlebury', 'middlebury2014', 'kitti2012', 'kitti_noc/kitti2012', 'kitti_noc/kitti2015',
        'driving/urban1', 'driving/urban2', 'sequence')

#: Kinds of bytes, and encodings that they are right under.
RIGHT = {'16': ('mono16', '16UC1'), '16 big': ('mono16',), '12 in 16': ('mono16',),
         '8 in 16': ('mono16',), 'yuyv': ('yuv422_yuy2', 'yuyv'), 'uyvy': ('yuv422', 'uyvy'),
         'grey': ('mono8', '8UC1'), 'rgb': ('rgb8', 'bgr8'), 'rgba': ('rgba8',),
         'mosaic': ('bayer_rggb8',)}

#: Kinds of bytes, encodings that they are wrong under, and what is to be told.
WRONG = (('16', 'mono16 big', 'is_bigendian to 0'), ('16 big', '16UC1', 'is_bigendian to 1'),
         ('12 in 16', 'mono16 big', 'is_bigendian to 0'),
         ('yuyv', 'yuv422', 'seems to be yuv422_yuy2:'), ('uyvy', 'yuyv', 'seems to be yuv422:'),
         ('16', 'yuyv', 'mono16, is_bigendian 0'), ('16 big', 'uyvy', 'mono16, is_bigendian 1'),
         ('packed 12', 'mono8', '12 bits a pixel, packed'),
         ('packed 12', 'bayer_grbg8', '12 bits a pixel, packed'),
         ('packed 12 of MIPI', 'mono8', '12 bits a pixel, packed'),
         ('packed 10 of MIPI', '8UC1', '10 bits a pixel, packed'),
         ('16', 'mono8', 'two bytes a pixel (mono16'), ('yuyv', 'mono8', 'yuv422_yuy2'),
         ('rgb', 'mono8', 'rgb8'), ('rgba', 'mono8', 'rgba8'), ('rgba', 'rgb8', 'rgba8'))


def written(picture: np.ndarray, kind: str) -> np.ndarray:
    """The bytes of a picture, H x W x 3, row by row: uint8 H x step."""
    height = len(picture)
    noise = np.random.default_rng(0).integers(0, 256, picture.shape[:2], np.uint16)
    yuv = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV)
    grey = yuv[..., 0].astype(np.uint16)
    chroma = np.where(np.arange(grey.shape[1]) % 2, yuv[..., 2], yuv[..., 1])
    bits12 = grey * 16 + noise // 16
    even, odd = bits12[:, ::2], bits12[:, 1::2]
    fours = [grey[:, k::4] for k in range(4)]
    mosaic = picture[..., 1].copy()
    mosaic[::2, ::2], mosaic[1::2, 1::2] = picture[::2, ::2, 0], picture[1::2, 1::2, 2]
    found = {
        '16': grey * 256 + noise, '16 big': (grey * 256 + noise).byteswap(),
        '12 in 16': bits12, '8 in 16': grey, 'grey': yuv[..., 0], 'rgb': picture,
        'rgba': np.dstack([picture, np.full(grey.shape, 255, np.uint8)]), 'mosaic': mosaic,
        'yuyv': np.dstack([yuv[..., 0], chroma]), 'uyvy': np.dstack([chroma, yuv[..., 0]]),
        'packed 12': np.dstack([even & 255, even >> 8 | (odd & 15) << 4, odd >> 4]),
        'packed 12 of MIPI': np.dstack([even >> 4, odd >> 4, even & 15 | (odd & 15) << 4]),
        'packed 10 of MIPI': np.dstack([*fours, noise[:, ::4] & 255])}[kind]
    if 'packed' in kind:
        found = found.astype(np.uint8)
    return np.ascontiguousarray(found).view(np.uint8).reshape(height, -1)


def image(picture: np.ndarray, kind: str, encoding: str) -> RawImage:
    data = written(picture, kind)
    name, _, order = encoding.partition(' ')
    return RawImage(data.tobytes(), len(data), picture.shape[1], data.shape[1], name,
                    order == 'big')


def pictures() -> tuple[np.ndarray, np.ndarray]:
    frame = SlantedPlane(width=320, height=240, slope_x=0.01).frame(0)
    tint = np.array([1.0, 0.8, 0.5])
    return tuple((grey[..., None] * tint).astype(np.uint8) for grey in (frame.left, frame.right))


@pytest.mark.parametrize(('kind', 'encoding', 'told'), WRONG)
def test_bytes_of_another_encoding_are_told_with_what_they_seem_to_be(
        kind: str, encoding: str, told: str) -> None:
    issue, = examine_pair(*(image(one, kind, encoding) for one in pictures()), CONFIG)
    assert issue.code is IssueCode.PIXEL_BYTES
    assert told in issue.text
    assert encoding.partition(' ')[0] in issue.text


@pytest.mark.parametrize(('kind', 'encoding'), [
    (kind, encoding) for kind, names in RIGHT.items() for encoding in names])
def test_nothing_is_said_of_bytes_that_are_what_they_should_be(kind: str, encoding: str) -> None:
    name = 'mono16 big' if kind == '16 big' else encoding
    assert check_bytes(*(image(one, kind, name) for one in pictures())) == []


@pytest.mark.parametrize('part', [2, 3, 4])
def test_a_part_of_a_wider_picture_is_not_packed(part: int) -> None:
    whole = written(pictures()[0], 'grey')
    width = whole.shape[1] // part
    for columns in (width, width - width % 8, whole.shape[1] * 2 // 3, whole.shape[1] * 4 // 5):
        view = RawImage(whole.tobytes(), len(whole), columns, whole.shape[1], 'mono8')
        assert check_bytes(view, view) == []


@pytest.mark.parametrize('shape', [(1, 1), (1, 64), (2, 2), (2, 64), (64, 2), (24, 4)])
@pytest.mark.parametrize('encoding', ['mono8', 'mono16', 'bayer_rggb16', 'yuv422'])
def test_images_that_tell_nothing_are_taken_as_they_are(shape: tuple[int, int], encoding: str
                                                        ) -> None:
    height, width = shape
    if encoding == 'yuv422' and width % 2:
        return
    noise = np.random.default_rng(0).integers(0, 256, (height, 5 * width), np.uint8)
    for data in (noise, noise // 255, noise * 0):
        one = RawImage(data.tobytes(), height, width, 5 * width, encoding)
        assert check_bytes(one, one) == []


def test_nothing_is_said_of_disparities_that_such_bytes_lead_to_or_of_exchanged_images() -> None:
    wrong = [image(one, 'packed 12', 'mono8') for one in reversed(pictures())]
    assert [one.code for one in examine_pair(*wrong, CONFIG)] == [IssueCode.PIXEL_BYTES]
    ignoring = CONFIG.replace(ignored_checks='pixel_bytes')
    assert examine_pair(*wrong, ignoring) == []


def test_the_node_warns_of_bytes_and_ends_with_them() -> None:
    bench = Bench(config=CONFIG, measures_inline=True)
    for info in (bench.left_info, bench.right_info):
        info.width, info.height = 320, 240
    for order, told in ((1, True), (0, False)):
        bench.now += 10**9
        messages = []
        for picture in pictures():
            message = make_image(bench.now, picture[..., 0])
            message.encoding, message.is_bigendian = 'mono16', order
            message.data, message.step = written(picture, '16').tobytes(), 640
            messages.append(message)
        bench.process(bench.now, left=messages[0], right=messages[1])
        assert ('is_bigendian to 0' in bench.texts()) is told
        assert 'min_valid_fraction' not in bench.texts() or not told


@pytest.mark.parametrize('folder', SETS)
def test_real_pictures_are_read_as_they_are_written_and_no_other_way(
        data: pathlib.Path, folder: str) -> None:
    if not (data / folder).is_dir():
        pytest.skip(f'no {folder} in {data}')
    pairs = open_dataset(data / folder)
    for place in range(0, len(pairs), max(1, len(pairs) // 20)):
        pair = pairs[place]
        assert check_bytes(*pair.images) == [], pair.name
        left, right = (one if one.ndim == 3 else cv2.cvtColor(one, cv2.COLOR_GRAY2RGB)
                       for one in (pair.left, pair.right))
        left, right = (np.ascontiguousarray(one[:, :one.shape[1] // 4 * 4])
                       for one in (left, right))
        for kind, names in RIGHT.items():
            name = 'mono16 big' if kind == '16 big' else names[0]
            assert check_bytes(*(image(one, kind, name) for one in (left, right))) == [], (
                pair.name, kind)
        for kind, encoding, told in WRONG:
            found = check_bytes(*(image(one, kind, encoding) for one in (left, right)))
            assert [told in one.text for one in found] == [True], (pair.name, kind, encoding)
