"""Every layout through one face, on made-up folders and on the real data."""

import cv2
import numpy as np
import pytest

from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.datasets import open_dataset, plain
from stereo_bp_ros.evaluation.metrics import score
from test.evaluation.layouts import save, save_pair


def test_a_plain_pair_is_a_data_set_of_one(tmp_path):
    save_pair(tmp_path / 'hall')
    dataset = open_dataset(tmp_path / 'hall')
    assert (dataset.name, len(dataset), dataset.names) == ('hall', 1, ('hall',))
    pair = dataset[0]
    assert (pair.left[0, 0], pair.right[0, 0]) == (10, 20)
    assert (pair.truth, pair.calibration, pair.stamp_ns, pair.disparities) == (None,) * 4


def test_the_truth_of_a_plain_pair_may_be_pfm_or_png(tmp_path):
    for name in ('pfm', 'wide'):
        save_pair(tmp_path / name)
    disparity = np.full((4, 6), 3.5, np.float32)
    files.write_pfm(tmp_path / 'pfm' / 'disparity.pfm', disparity)
    files.write_disparity_png(tmp_path / 'wide' / 'disparity.png', disparity)
    truths = {pair.name: float(pair.truth[0, 0]) for pair in open_dataset(tmp_path)}
    assert truths == {'pfm': 3.5, 'wide': 3.5}


KEYS = ('disparities: 16, disparity_scale: {}', 'disparities: {}, disparity_scale: 8')
VALUES = ('.inf', '.nan', '0', '-8', '1' + 400 * '0', '[8]', 'eight', '2001-13-45', '!!int x',
          '!!bool x', '*none', '"\\x"')


@pytest.mark.parametrize('text', [
    '[1, 2]', 's: 3', 's: {disparities: 16}', 's: {b: [', '{}',
    *(f's: {{{keys.format(value)}}}' for keys in KEYS for value in VALUES)])
def test_a_description_that_makes_no_sense_is_refused_by_name(tmp_path, text):
    save_pair(tmp_path / 's')
    (tmp_path / 'sets.yaml').write_text(text)
    with pytest.raises(ValueError, match=r'sets\.yaml'):
        open_dataset(tmp_path)


@pytest.mark.parametrize('form', ['png', 'pfm'])
def test_the_description_of_many_sets_is_read_once(tmp_path, monkeypatch, form):
    read = []
    monkeypatch.setattr(plain, 'read_yaml', lambda path: read.append(path) or read_yaml(path))
    disparity = np.full((4, 6), 3.5, np.float32)
    for index in range(5):
        save_pair(tmp_path / f's{index}')
        path = tmp_path / f's{index}' / f'disparity.{form}'
        if form == 'png':
            files.write_disparity_png(path, disparity)
        else:
            files.write_pfm(path, disparity)
    (tmp_path / 'sets.yaml').write_text(''.join(
        f's{index}: {{disparities: 16, disparity_scale: 256}}\n' for index in range(5)))
    found = [(pair.disparities, float(pair.truth[0, 0])) for pair in open_dataset(tmp_path)]
    assert found == 5 * [(16, 3.5)]
    assert read == [tmp_path / 'sets.yaml']


@pytest.mark.parametrize('stamp', ['-1', '1.5', 'now', str(2**63), '[1]'])
def test_a_stamp_that_is_none_is_refused_by_name(tmp_path, stamp):
    save_pair(tmp_path / 's')
    path = tmp_path / 'sets.yaml'
    path.write_text('s: {disparities: 16, disparity_scale: 8, stamp_ns: 123}\n')
    assert open_dataset(tmp_path)[0].stamp_ns == 123
    path.write_text(f's: {{disparities: 16, disparity_scale: 8, stamp_ns: {stamp}}}\n')
    with pytest.raises(ValueError, match=r'sets\.yaml: stamp_ns of .s. has to be a whole number'):
        open_dataset(tmp_path)


def test_a_number_of_disparities_that_is_none_is_refused_by_name(tmp_path):
    save(tmp_path / 'im0.png', 100)
    save(tmp_path / 'im1.png', 100)
    for value in ('\u00b2', '9' * 400, '-3', ''):
        (tmp_path / 'calib.txt').write_text(f'ndisp={value}\n')
        with pytest.raises(ValueError, match=r'calib\.txt: ndisp is'):
            open_dataset(tmp_path)


def test_described_sets_keep_their_order_scale_and_search_range(tmp_path):
    for name in ('b', 'a'):
        save_pair(tmp_path / name)
        save(tmp_path / name / 'disparity.png', 40)
    (tmp_path / 'sets.yaml').write_text(
        'b: {disparities: 16, disparity_scale: 8}\na: {disparities: 32, disparity_scale: 4}\n')
    pairs = list(open_dataset(tmp_path))
    assert [(pair.name, pair.disparities, float(pair.truth[0, 0])) for pair in pairs] == [
        ('b', 16, 5.0), ('a', 32, 10.0)]
    alone = open_dataset(tmp_path / 'a')[0]
    assert (alone.disparities, float(alone.truth[0, 0])) == (32, 10.0)


def test_frames_of_a_sequence_come_in_the_order_of_their_stamps(tmp_path):
    for stamp in (1000, 900, 20):
        for side in ('left', 'right'):
            save(tmp_path / side / f'{stamp}.png', 100)
    (tmp_path / 'P_left.txt').write_text('400 0 300 0\n0 400 200 0\n0 0 1 0\n')
    (tmp_path / 'P_right.txt').write_text('400 0 300 -40\n0 400 200 0\n0 0 1 0\n')
    dataset = open_dataset(tmp_path)
    assert [pair.stamp_ns for pair in dataset] == [20, 900, 1000]
    assert dataset[0].calibration.baseline_m == pytest.approx(0.1)


def test_kitti_is_found_in_its_folder_and_in_training(tmp_path):
    for side in ('image_0', 'image_1'):
        save(tmp_path / 'kitti' / 'training' / side / '000007_10.png', 100)
    for path in (tmp_path / 'kitti', tmp_path / 'kitti' / 'training', tmp_path):
        dataset = open_dataset(path)
        assert [name.rpartition('/')[2] for name in dataset.names] == ['000007_10']
        assert not dataset.has_truth


def test_kitti_2015_has_its_truth_vehicles_and_the_calibration_of_its_cameras(tmp_path):
    training = tmp_path / 'training'
    for name in ('000007_10', '000007_11'):
        for side in ('image_2', 'image_3'):
            save(training / side / f'{name}.png', 100)
    save(training / 'obj_map' / '000007_10.png', 3)
    (training / 'disp_occ_0').mkdir()
    files.write_disparity_png(training / 'disp_occ_0' / '000007_10.png',
                              np.full((4, 6), 9, np.float32))
    (training / 'calib').mkdir()
    (training / 'calib' / '000007.txt').write_text(''.join(
        f'P{camera}: 700 0 600 {-700 * shift} 0 700 180 0 0 0 1 0\n'
        for camera, shift in enumerate((0, 0.5, -0.25, 0.25))))
    pair, later = open_dataset(tmp_path)
    assert (pair.name, pair.truth.max(), pair.vehicles.all()) == ('000007_10', 9, True)
    assert pair.calibration.baseline_m == pytest.approx(0.5)
    assert pair.calibration.cx_left == 600
    assert (later.truth, later.vehicles) == (None, None)


def test_the_classes_of_kitti_are_numbers_of_cityscapes(tmp_path):
    for side in ('image_2', 'image_3'):
        for name in ('000007_10', '000007_11'):
            save(tmp_path / side / f'{name}.png', 100)
    numbers = np.array([[0, 3, 4, 7, 17, 23], [20, 21, 26, 33, 34, 255]], np.uint8)
    (tmp_path / 'semantic').mkdir()
    files.write_image(tmp_path / 'semantic' / '000007_10.png', np.repeat(numbers, 2, axis=0))
    pair, later = open_dataset(tmp_path)
    places = {name: np.argwhere(mask[::2]).tolist() for name, mask in pair.classes.items()}
    assert places == {'static': [[0, 2]], 'road': [[0, 3]], 'pole': [[0, 4]],
                      'traffic_sign': [[1, 0]], 'vegetation': [[1, 1]], 'car': [[1, 2]],
                      'bicycle': [[1, 3]]}
    np.testing.assert_array_equal(pair.sky[::2], numbers == 23)
    assert (later.classes, later.sky) == ({}, None)


def test_classes_of_a_pair_are_masks_by_their_names(tmp_path):
    save_pair(tmp_path / 'hall')
    save(tmp_path / 'hall' / 'classes' / 'pole.png', 1)
    save(tmp_path / 'hall' / 'classes' / 'sky.png', 1)
    pair = open_dataset(tmp_path / 'hall')[0]
    assert (list(pair.classes), pair.classes['pole'].all(), pair.sky.all()) == (
        ['pole'], True, True)
    # A mask of the sky beside the pair is the one that counts.
    save(tmp_path / 'hall' / 'sky.png', 0)
    assert not open_dataset(tmp_path / 'hall')[0].sky.any()
    save(tmp_path / 'hall' / 'classes' / 'pole.png', 1, (4, 5))
    with pytest.raises(ValueError, match=r'mask of the class pole of .*left\.png is 5 x 4'):
        open_dataset(tmp_path / 'hall')[0]
    (tmp_path / 'hall' / 'classes' / 'pole.png').rename(
        tmp_path / 'hall' / 'classes' / 'Pole 1.png')
    with pytest.raises(ValueError, match=r"a class is named 'Pole 1', but a name has small"):
        open_dataset(tmp_path / 'hall')[0]


def test_masks_lie_beside_a_pair_and_have_its_size(tmp_path):
    save_pair(tmp_path / 'hall')
    save(tmp_path / 'hall' / 'vehicles.png', 1)
    save(tmp_path / 'hall' / 'sky.png', 0)
    pair = open_dataset(tmp_path / 'hall')[0]
    assert (pair.vehicles.dtype, pair.vehicles.all(), pair.sky.any()) == (np.bool_, True, False)
    save(tmp_path / 'hall' / 'sky.png', 0, (4, 5))
    with pytest.raises(ValueError, match=r'mask of the sky of .*left\.png is 5 x 4, '
                       'the image 6 x 4'):
        open_dataset(tmp_path / 'hall')[0]
    files.write_image(tmp_path / 'hall' / 'sky.png', np.zeros((4, 6, 3), np.uint8))
    with pytest.raises(ValueError, match=r'sky\.png is not grey'):
        open_dataset(tmp_path / 'hall')[0]


def test_files_are_read_only_when_a_pair_is_asked_for(tmp_path):
    save_pair(tmp_path / 'one')
    save_pair(tmp_path / 'two')
    (tmp_path / 'two' / 'right.png').write_bytes(b'damaged')
    dataset = open_dataset(tmp_path)
    assert dataset[0].name == 'one'
    with pytest.raises(ValueError, match=r'two/right\.png'):
        dataset[1]


def test_a_missing_folder_and_a_file_are_named(tmp_path):
    with pytest.raises(ValueError, match=r'there is no folder .*nowhere'):
        open_dataset(tmp_path / 'nowhere')
    save(tmp_path / 'left.png', 100)
    with pytest.raises(ValueError, match=r'left\.png is a file'):
        open_dataset(tmp_path / 'left.png')


def test_a_folder_without_pairs_says_what_was_looked_for(tmp_path):
    save(tmp_path / 'left.png', 100)
    with pytest.raises(ValueError, match='image_0/ with image_1/') as error:
        open_dataset(tmp_path)
    assert str(tmp_path.name) in str(error.value)


def test_an_image_without_partner_is_named(tmp_path):
    save(tmp_path / 'left' / '1.png', 100)
    save(tmp_path / 'left' / '2.png', 100)
    save(tmp_path / 'right' / '1.png', 100)
    with pytest.raises(ValueError, match=r'left/2\.png has no partner'):
        open_dataset(tmp_path)


def test_empty_image_folders_are_an_error(tmp_path):
    (tmp_path / 'left').mkdir()
    (tmp_path / 'right').mkdir()
    with pytest.raises(ValueError, match='no images'):
        open_dataset(tmp_path)


def test_images_and_truth_of_different_sizes_are_refused(tmp_path):
    save(tmp_path / 'left.png', size=(4, 6))
    save(tmp_path / 'right.png', size=(4, 7))
    with pytest.raises(ValueError, match='7 x 4'):
        open_dataset(tmp_path)[0]
    save(tmp_path / 'right.png', size=(4, 6))
    files.write_pfm(tmp_path / 'disparity.pfm', np.ones((3, 6), np.float32))
    with pytest.raises(ValueError, match='ground truth'):
        open_dataset(tmp_path)[0]


def test_the_real_middlebury_sets_have_truth_within_their_search_range(data):
    dataset = open_dataset(data / 'middlebury')
    assert dataset.names == ('tsukuba', 'venus', 'barn1', 'cones_quarter', 'cones_half', 'teddy')
    for pair in dataset:
        assert pair.left.ndim == 2
        assert np.nanmax(pair.truth) < pair.disparities


def test_the_real_motorcycle_pair_has_its_column_offset(data):
    pair = open_dataset(data / 'middlebury2014')[0]
    assert pair.name == 'Motorcycle'
    assert pair.left.shape == (500, 741, 3)
    assert pair.calibration.shift == pytest.approx(-31.086)
    assert pair.disparities == 64


def test_the_real_sequence_has_sixty_pairs_at_twenty_hertz(data):
    dataset = open_dataset(data / 'sequence')
    assert len(dataset) == 60
    stamps = [int(name) for name in dataset.names]
    assert np.allclose(np.diff(stamps), 50e6, atol=1e4)
    pair = dataset[-1]
    assert pair.left.shape == (480, 752)
    assert pair.calibration.baseline_m == pytest.approx(0.110, abs=1e-3)


def test_the_real_driving_pairs_have_no_truth(data):
    dataset = open_dataset(data / 'driving')
    assert dataset.names == ('urban1', 'urban2')
    assert not dataset.has_truth


@pytest.mark.parametrize('part', ['middlebury', 'kitti2012', 'middlebury2014'])
def test_a_block_matcher_agrees_with_the_real_truth(data, part):
    # A truth that is scaled, shifted, flipped or of the other camera fails here.
    pair = open_dataset(data / part)[0]
    grey = [image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
            for image in (pair.left, pair.right)]
    matcher = cv2.StereoBM_create(128 if part == 'kitti2012' else 64, 15)
    disparity = matcher.compute(*grey).astype(np.float32) / 16
    result = score(disparity, pair.truth, disparity > 0)
    assert result.density > 30
    assert result.bad_estimated(2.0) < 25
