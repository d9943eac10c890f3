"""Public data sets in their native names, scales and folders, on files as they come unpacked."""

import cv2
import numpy as np
import pytest

from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.datasets import open_dataset
from test.evaluation.layouts import save


def save_views(folder, names, rows, columns, suffix='.png'):
    """Colour images, each of one grey level: 0 for the first name, 1 for the second, ..."""
    for level, name in enumerate(names):
        save(folder / f'{name}{suffix}', np.full((rows, columns, 3), level, np.uint8))


def levels(rows, columns, value):
    """A stored truth: 0 (unknown) in the first column, else one value."""
    image = np.full((rows, columns), value, np.uint8 if value < 256 else np.uint16)
    image[:, 0] = 0
    return image


def only(path):
    pair, = open_dataset(path)
    return pair


def assert_truth(pair, disparity):
    assert pair.truth.dtype == np.float32
    assert np.isnan(pair.truth[:, 0]).all()
    np.testing.assert_allclose(pair.truth[:, 1:], disparity, rtol=1e-6)


@pytest.mark.parametrize(('rows', 'columns', 'scale', 'suffixes'), [
    (383, 434, 8, ('.ppm', '.pgm')),        # venus, 2001
    (375, 450, 4, ('.ppm', '.pgm')),        # teddy, 2003, quarter size
    (375, 450, 4, ('.png', '.png')),        # the same as the evaluation has it
    (750, 900, 2, ('.ppm', '.pgm')),
    (1500, 1800, 1, ('.ppm', '.pgm'))])
def test_middlebury_2001_and_2003_match_view_2_with_6_in_the_scale_of_their_size(
        tmp_path, rows, columns, scale, suffixes):
    folder = tmp_path / 'set'
    save_views(folder, [f'im{view}' for view in range(9)], rows, columns, suffixes[0])
    save(folder / f'disp2{suffixes[1]}', levels(rows, columns, 100))
    save(folder / f'disp6{suffixes[1]}', levels(rows, columns, 50))
    pair = only(tmp_path)
    assert (pair.name, pair.left[0, 0, 0], pair.right[0, 0, 0]) == ('set', 2, 6)
    assert_truth(pair, 100 / scale)


def test_tsukuba_of_2001_has_names_and_a_scale_of_its_own(tmp_path):
    save_views(tmp_path, [f'scene1.row3.col{column}' for column in range(1, 6)], 288, 384, '.ppm')
    save(tmp_path / 'truedisp.row3.col3.pgm', levels(288, 384, 224))
    pair = only(tmp_path)
    assert (pair.left[0, 0, 0], pair.right[0, 0, 0]) == (2, 3)
    assert_truth(pair, 14)


@pytest.mark.parametrize('name', ['venus', 'barn1', 'cones_quarter', 'cones_half', 'teddy',
                                  'tsukuba'])
def test_a_real_set_under_its_native_names_has_the_truth_of_its_description(
        data, tmp_path, name):
    sets = open_dataset(data / 'middlebury')
    expected = sets[sets.names.index(name)]
    names = ('scene1.row3.col3.ppm', 'scene1.row3.col4.ppm', 'truedisp.row3.col3.pgm') \
        if name == 'tsukuba' else ('im2.ppm', 'im6.ppm', 'disp2.pgm')
    for own, native in zip(('left', 'right', 'disparity'), names, strict=True):
        image = cv2.imread(str(data / 'middlebury' / name / f'{own}.png'), cv2.IMREAD_UNCHANGED)
        save(tmp_path / native, cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
             if native.endswith('.ppm') else image)
    pair = only(tmp_path)
    np.testing.assert_array_equal(pair.left[:, :, 1], expected.left)
    np.testing.assert_array_equal(pair.truth, expected.truth)


@pytest.mark.parametrize(('rows', 'scale'), [(1110, 1), (555, 2), (370, 3)])
def test_middlebury_2005_and_2006_store_pixels_of_the_full_size_and_crop_by_dmin(
        tmp_path, rows, scale):
    save_views(tmp_path / 'Art', [f'view{view}' for view in range(7)], rows, 300)
    save(tmp_path / 'Art' / 'disp1.png', levels(rows, 300, 120))
    save(tmp_path / 'Art' / 'disp5.png', levels(rows, 300, 60))
    (tmp_path / 'Art' / 'dmin.txt').write_text('200\n')
    pair = only(tmp_path)
    assert (pair.name, pair.left[0, 0, 0], pair.right[0, 0, 0]) == ('Art', 1, 5)
    assert_truth(pair, 120 / scale)
    numbers = pair.calibration
    depth = numbers.focal_px * numbers.baseline_m / (120 / scale - numbers.shift)
    assert depth == pytest.approx(3740 * 0.160 / (120 + 200))


def test_sizes_that_no_middlebury_set_has_are_refused_with_a_way_out(tmp_path):
    for views, truth in ((('im2', 'im6'), 'disp2'), (('view1', 'view5'), 'disp1')):
        save_views(tmp_path / truth, views, 40, 60)
        save(tmp_path / truth / f'{truth}.png', levels(40, 60, 9))
        with pytest.raises(ValueError, match=rf'{truth}\.png has 40 rows.*sets\.yaml'):
            only(tmp_path / truth)
    (tmp_path / 'disp1' / 'dmin.txt').write_text('many')
    (tmp_path / 'disp1' / 'disp1.png').unlink()
    save_views(tmp_path / 'disp1', ('view1', 'view5'), 370, 60)
    with pytest.raises(ValueError, match=r"dmin\.txt is 'many'"):
        only(tmp_path / 'disp1')


ETH3D_CALIBRATION = (
    'cam0=[541.764 0 553.869; 0 541.764 232.396; 0 0 1]\n'
    'cam1=[541.764 0 553.869; 0 541.764 232.396; 0 0 1]\n'
    'doffs=0\nbaseline=59.9085\nwidth=941\nheight=490\nndisp=64\nisint=0\nvmin=0\nvmax=64\n'
    'dyavg=0\ndymax=0\n')


@pytest.mark.parametrize('truth_name', ['disp0GT.pfm', 'disp0.pfm'])
def test_eth3d_and_middlebury_since_2014_tell_occluded_pixels_where_they_have_the_mask(
        tmp_path, truth_name):
    folder = tmp_path / 'two_view_training' / 'delivery_area_1l'
    save_views(folder, ('im0', 'im1'), 4, 6)
    truth = np.full((4, 6), 7.5, np.float32)
    truth[0] = np.inf
    files.write_pfm(folder / truth_name, truth)
    (folder / 'calib.txt').write_text(ETH3D_CALIBRATION)
    assert only(folder).occluded is None
    mask = np.full((4, 6), 255, np.uint8)
    mask[0], mask[:, 1] = 0, 128
    save(folder / 'mask0nocc.png', mask)
    pair = only(tmp_path / 'two_view_training')
    assert (pair.name, pair.disparities) == ('delivery_area_1l', 64)
    assert pair.calibration.baseline_m == pytest.approx(0.0599085)
    np.testing.assert_array_equal(np.isfinite(pair.truth), truth < 8)
    assert pair.occluded[1:, 1].all()
    assert pair.occluded.sum() == 3
    save(folder / 'mask0nocc.png', mask[:3])
    with pytest.raises(ValueError, match=r'mask0nocc\.png is 6 x 3'):
        only(folder)


def test_middlebury_2021_has_the_names_of_2014(tmp_path):
    folder = tmp_path / 'artroom1'
    save_views(folder, ('im0', 'im1'), 4, 6)
    save_views(folder / 'ambient' / 'L0', ('im0e0', 'im1e0'), 4, 6)
    for name, disparity in (('disp0', 9), ('disp1', 8)):
        files.write_pfm(folder / f'{name}.pfm', np.full((4, 6), disparity, np.float32))
    (folder / 'calib.txt').write_text(
        'cam0=[1733.74 0 792.27; 0 1733.74 541.89; 0 0 1]\n'
        'cam1=[1733.74 0 792.27; 0 1733.74 541.89; 0 0 1]\n'
        'doffs=0\nbaseline=536.62\nwidth=1920\nheight=1080\nndisp=170\nvmin=55\nvmax=142\n')
    pair = only(tmp_path)
    assert (pair.disparities, pair.truth.max(), pair.left.max()) == (170, 9, 0)
    assert pair.calibration.baseline_m == pytest.approx(0.53662)


@pytest.mark.parametrize(('sides', 'suffix'), [(('image_0', 'image_1'), ''),
                                               (('image_2', 'image_3'), '_0')])
def test_kitti_tells_occluded_pixels_by_its_two_truths(tmp_path, sides, suffix):
    training = tmp_path / 'training'
    for name in ('000003_10', '000004_10', '000005_10'):
        for side in sides:
            save(training / side / f'{name}.png', np.zeros((4, 6), np.uint8))
    known, visible = levels(4, 6, 2560), levels(4, 6, 2560)
    visible[2] = 0
    save(training / f'disp_occ{suffix}' / '000003_10.png', known)
    save(training / f'disp_noc{suffix}' / '000003_10.png', visible)
    save(training / f'disp_noc{suffix}' / '000004_10.png', visible)
    both, visible_only, neither = open_dataset(tmp_path)
    assert_truth(both, 10)
    assert both.occluded[2, 1:].all()
    assert both.occluded.sum() == 5
    assert visible_only.occluded is None
    assert np.isfinite(visible_only.truth).sum() == 15
    assert (neither.truth, neither.occluded) == (None, None)


DRIVE = '2018-10-19-09-30-39'
DRIVING_STEREO_CALIBRATION = (
    'S_101: 1762 800\nK_101: 2007.1 0 881 0 2007.1 400 0 0 1\n'
    'T_101: 0 0 0\nP_rect_101: {f} 0 {cx} 0 0 {f} {cy} 0 0 0 1 0\n'
    'T_103: -0.5446 0.001 0.002\n'
    'P_rect_103: {f} 0 {cx} -1093.07 0 {f} {cy} 0 0 0 1 0\n')


def save_drive(left, right, truth, value, suffix, name=f'{DRIVE}_2018-10-19-09-31-36-438'):
    save_views(left, (name,), 4, 6, suffix)
    save_views(right, (name,), 4, 6, suffix)
    save(truth / f'{name}.png', levels(4, 6, value))


def test_a_weather_of_driving_stereo_has_both_sizes_in_their_scales(tmp_path):
    for size, suffix, focal in (('half', '.jpg', 1003.55), ('full', '.png', 2007.1)):
        save_drive(*(tmp_path / 'sunny' / f'{kind}-{size}-size' for kind in (
            'left-image', 'right-image', 'disparity-map')), 5120, suffix)
        (tmp_path / f'{size}-image-calib').mkdir()
        (tmp_path / f'{size}-image-calib' / f'{DRIVE}.txt').write_text(
            DRIVING_STEREO_CALIBRATION.format(f=focal, cx=focal / 2, cy=focal / 5))
    half, full = open_dataset(tmp_path / 'sunny')
    assert half.name == f'half-size/{DRIVE}_2018-10-19-09-31-36-438'
    assert_truth(half, 20)
    assert_truth(full, 40)
    assert (half.calibration.focal_px, full.calibration.focal_px) == (1003.55, 2007.1)
    for pair in (half, full):
        assert pair.calibration.baseline_m == pytest.approx(0.5446, abs=1e-5)


def test_the_training_and_test_parts_of_driving_stereo_have_a_folder_for_each_drive(tmp_path):
    kinds = ('left-image', 'right-image', 'disparity-map')
    save_drive(*(tmp_path / f'train-{kind}' / DRIVE for kind in kinds), 2560, '.jpg')
    pair = only(tmp_path)
    assert pair.name == f'{DRIVE}_2018-10-19-09-31-36-438'
    assert_truth(pair, 10)
    assert pair.calibration is None
    for size in ('half', 'full'):
        save_drive(*(tmp_path / f'test-{kind}' / f'{kind}-{size}-size' for kind in kinds), 2560,
                   '.jpg', f'{DRIVE}_2018-10-19-09-40-00-000')
    disparities = {pair.name: np.nanmax(pair.truth) for pair in open_dataset(tmp_path)}
    assert disparities == {f'half-size/{DRIVE}_2018-10-19-09-31-36-438': 10,
                           f'half-size/{DRIVE}_2018-10-19-09-40-00-000': 10,
                           f'full-size/{DRIVE}_2018-10-19-09-40-00-000': 20}


def test_a_driving_stereo_image_without_a_partner_is_named(tmp_path):
    save_views(tmp_path / 'left-image-half-size', ('a', 'b'), 4, 6, '.jpg')
    save_views(tmp_path / 'right-image-half-size', ('a',), 4, 6, '.jpg')
    with pytest.raises(ValueError, match=r'left-image-half-size/b\.jpg has no partner'):
        open_dataset(tmp_path)


def save_variation(folder, centimetres):
    for camera in (0, 1):
        save_views(folder / 'frames' / 'rgb' / f'Camera_{camera}', ('rgb_00000', 'rgb_00001'),
                   4, 6, '.jpg')
        for number in (0, 1):
            save(folder / 'frames' / 'depth' / f'Camera_{camera}' / f'depth_0000{number}.png',
                 np.asarray(centimetres, np.uint16))
    (folder / 'intrinsic.txt').write_text(
        'frame cameraID K[0,0] K[1,1] K[0,2] K[1,2]\n' + ''.join(
            f'{frame} {camera} 725.0087 725.0087 620.5 187\n'
            for frame in (0, 1) for camera in (0, 1)))


def test_virtual_kitti_2_turns_its_depth_into_disparity_and_the_sky_into_a_mask(tmp_path):
    centimetres = np.full((4, 6), 1000)
    centimetres[0] = 65535
    centimetres[1, 0] = 0
    for variation in ('clone', 'fog'):
        save_variation(tmp_path / 'Scene01' / variation, centimetres)
    for path, prefix in ((tmp_path, 'Scene01/clone/'), (tmp_path / 'Scene01', 'clone/'),
                         (tmp_path / 'Scene01' / 'clone', '')):
        assert open_dataset(path).names[:2] == (f'{prefix}rgb_00000', f'{prefix}rgb_00001')
    dataset = open_dataset(tmp_path)
    assert len(dataset) == 4
    pair = dataset[3]
    assert pair.name == 'Scene01/fog/rgb_00001'
    assert pair.truth.dtype == np.float32
    assert pair.truth[3, 3] == pytest.approx(725.0087 * 0.532725 / 10)
    assert np.isnan(pair.truth[0]).all()
    assert np.isnan(pair.truth[1, 0])
    assert np.isfinite(pair.truth).sum() == 17
    np.testing.assert_array_equal(pair.sky, centimetres == 65535)
    assert pair.calibration.baseline_m == 0.532725
    (tmp_path / 'Scene01' / 'fog' / 'intrinsic.txt').unlink()
    assert (dataset[0].truth is None, open_dataset(tmp_path)[3].truth) == (False, None)


def test_the_classes_of_virtual_kitti_2_tell_vehicles_by_their_colours(tmp_path):
    save_variation(tmp_path, np.full((4, 6), 1000))
    colours = {'Sky': (90, 200, 255), 'Truck': (160, 60, 60), 'Car': (255, 127, 80),
               'Van': (0, 139, 139), 'Road': (100, 60, 100), 'Undefined': (0, 0, 0)}
    classes = np.array([list(colours.values())] * 4, np.uint8)
    path = tmp_path / 'frames/classSegmentation/Camera_0/classgt_00001.png'
    save(path, classes[:, :, ::-1])
    first, second = open_dataset(tmp_path)
    assert (first.vehicles, first.classes) == (None, {})
    assert second.classes.keys() == {'truck', 'car', 'van', 'road'}
    for column, name in enumerate(colours):
        assert (second.vehicles[:, column] == (name in ('Truck', 'Car', 'Van'))).all()
        for known, mask in second.classes.items():
            assert (mask[:, column] == (known == name.lower())).all()
    save(path, np.zeros((4, 6), np.uint8))
    with pytest.raises(ValueError, match=r'classgt_00001\.png are grey'):
        open_dataset(tmp_path)[1]


def test_a_depth_of_8_bits_is_refused_by_name(tmp_path):
    save_variation(tmp_path, np.full((4, 6), 1000))
    cv2.imwrite(str(tmp_path / 'frames/depth/Camera_0/depth_00000.png'),
                np.ones((4, 6), np.uint8))
    with pytest.raises(ValueError, match=r'depth_00000\.png has 8 bits'):
        open_dataset(tmp_path)[0]
