"""Round trips of the field's files, and what readers say about bad ones."""

import resource
import sys

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stereo_bp_ros.images import files

per_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=7)


@per_folder
@given(disparity=hnp.arrays(np.float32, shapes, elements=st.floats(width=32)))
def test_a_pfm_file_gives_back_every_bit(tmp_path, disparity):
    files.write_pfm(tmp_path / 'd.pfm', disparity)
    back = files.read_pfm(tmp_path / 'd.pfm')
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, disparity)


def test_a_pfm_file_holds_the_bottom_row_first_in_little_endian(tmp_path):
    path = tmp_path / 'd.pfm'
    files.write_pfm(path, np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    header, size, scale, body = path.read_bytes().split(b'\n', 3)
    assert (header, size, float(scale) < 0) == (b'Pf', b'3 2', True)
    assert np.frombuffer(body, '<f4').tolist() == [4, 5, 6, 1, 2, 3]
    path.write_bytes(b'Pf\n2 1\n1.0\n' + np.array([1.5, 2.5], '>f4').tobytes())
    assert files.read_pfm(path).tolist() == [[1.5, 2.5]]


def test_a_disparity_image_has_a_scale_and_0_for_unknown_values(tmp_path):
    path = tmp_path / 'd.png'
    files.write_disparity_png(path, np.array([[3.0, -1.0]], np.float32))
    np.testing.assert_array_equal(files.read_disparity_png(path), [[3.0, np.nan]])
    with pytest.raises(ValueError, match='do not fit'):         # rather than wrapped
        files.write_disparity_png(tmp_path / 'far.png', np.full((2, 2), 300.0, np.float32))
    assert not (tmp_path / 'far.png').exists()
    files.write_image(path, np.array([[0, 16, 24]], np.uint8))
    np.testing.assert_array_equal(files.read_disparity_png(path, 8), [[np.nan, 2.0, 3.0]])
    with pytest.raises(ValueError, match=r'd\.png has 8 bits'):
        files.read_disparity_png(path)
    for scale in (0, -8, float('nan'), float('inf')):
        with pytest.raises(ValueError, match=r'd\.png is .* must be above 0'):
            files.read_disparity_png(path, scale)


def test_a_colour_image_is_read_as_red_green_blue_from_a_name_of_any_language(tmp_path):
    path = tmp_path / 'i.png'
    if sys.getfilesystemencoding().lower() == 'utf-8':
        path = tmp_path / 'stra\u00dfe \u9053.png'
    for channels in (3, 4):
        files.write_image(path, np.full((2, 2, channels), (10, 20, 30, 255)[:channels], np.uint8))
        back = files.read_image(path)
        assert back.shape == (2, 2, 3)
        assert back[0, 0].tolist() == [30, 20, 10]


def test_real_truths_are_read_as_other_readers_do(data):
    path = data / 'middlebury2014' / 'Motorcycle' / 'disp0.pfm'
    truth = files.read_pfm(path)
    assert truth.shape == (500, 741)
    assert np.isinf(truth).any()
    assert 0 < truth[np.isfinite(truth)].min() < truth[np.isfinite(truth)].max() < 64
    np.testing.assert_array_equal(truth, cv2.imread(str(path), -1))
    truth = files.read_disparity_png(
        data / 'kitti2012' / 'training' / 'disp_occ' / '000000_10.png')
    assert np.isfinite(truth).mean() == pytest.approx(0.36, abs=0.02)
    assert np.nanmax(truth) < 128


@pytest.mark.parametrize(('content', 'words'), [
    (b'', 'does not begin'),
    (b'PF\n1 1\n-1.0\n' + bytes(12), 'three channels'),
    (b'Pf\n4 4\n-1.0\n' + bytes(60), 'ends early'),
    (b'Pf\n99999999 9999999\n-1.0\n', '99999999'),
    (b'Pf\n' + 5000 * b'9' + b' 1\n-1.0\n', 'does not begin'),
    (b'Pf\n2 1\n-1.0.0\n' + bytes(8), 'scale'),
])
def test_a_damaged_pfm_file_is_refused_by_name(tmp_path, content, words):
    (tmp_path / 'broken.pfm').write_bytes(content)
    with pytest.raises(ValueError, match=words) as error:
        files.read_pfm(tmp_path / 'broken.pfm')
    assert 'broken.pfm' in str(error.value)


@per_folder
@given(disparity=hnp.arrays(np.float32, shapes, elements=st.one_of(
    st.floats(0, 255.5, width=32), st.just(float('nan')))))
def test_a_disparity_png_keeps_values_to_half_a_level_and_holes_as_holes(tmp_path, disparity):
    files.write_disparity_png(tmp_path / 'd.png', disparity)
    back = files.read_disparity_png(tmp_path / 'd.png')
    np.testing.assert_array_equal(np.isnan(back), np.isnan(disparity))
    known = ~np.isnan(disparity)
    # 0 is stored as the smallest level, as level 0 means unknown.
    expected = np.maximum(disparity[known], 1 / 256)
    np.testing.assert_allclose(back[known], expected, atol=0.5 / 256 + 1e-6)


def test_a_missing_a_damaged_and_an_unusable_image_are_named_with_the_reason(tmp_path):
    with pytest.raises(ValueError, match=r'none\.png cannot be read: No such file'):
        files.read_image(tmp_path / 'none.png')
    for content in (b'', b'no image at all'):
        (tmp_path / 'bad.png').write_bytes(content)
        with pytest.raises(ValueError, match=r'bad\.png cannot be read: this is '):
            files.read_image(tmp_path / 'bad.png')
    files.write_image(tmp_path / 'deep.png', np.zeros((2, 2, 3), np.uint16))
    with pytest.raises(ValueError, match=r'deep\.png has 3 channels of uint16'):
        files.read_image(tmp_path / 'deep.png')
    with pytest.raises(ValueError, match=r'i\.nothing'):
        files.write_image(tmp_path / 'i.nothing', np.zeros((2, 2), np.uint8))


def test_a_png_whose_chunk_goes_on_behind_its_end_reaches_no_decoder(tmp_path, monkeypatch):
    done, data = cv2.imencode('.png', np.full((4, 6), 7, np.uint8))
    assert done
    file = bytearray(data.tobytes())
    place = file.index(b'IDAT')
    file[place - 4:place] = (2**30).to_bytes(4, 'big')
    (tmp_path / 'image.png').write_bytes(file)
    monkeypatch.setattr(cv2, 'imdecode', lambda *_: pytest.fail('was decoded'))
    for read in (files.read_image, files.read_mask, files.read_disparity_png):
        with pytest.raises(ValueError, match=r'image\.png cannot be read: its pixels'):
            read(tmp_path / 'image.png')


@pytest.mark.parametrize('write', [
    lambda path: files.write_pfm(path, np.zeros((50, 50), np.float32)),
    lambda path: files.write_image(path.with_suffix('.png'), np.random.default_rng(0).integers(
        0, 256, (50, 50), np.uint8))], ids=['pfm', 'image'])
def test_nothing_is_left_of_a_file_that_could_not_be_written_whole(tmp_path, write):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(ValueError, match='cannot be written: File too large'):
            write(tmp_path / 'map.pfm')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(tmp_path.iterdir())
