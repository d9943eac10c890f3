"""KITTI as people keep it: odometry, raw data, KITTI-360, and the cameras that a folder tells."""

import json
import logging

import numpy as np
import pytest

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.calibrations import read_calibration
from stereo_bp_ros.evaluation.datasets import open_dataset
from test.evaluation.layouts import save

P = '{f} 0 609.6 {x} 0 {f} 172.9 {y} 0 0 1 0'
FOCAL = 721.5377
#: P[3] and P[7] of cameras 0 to 3: pixels x metres.
OFFSETS = ((0.0, 0.0), (-387.5744, 0.0), (44.85728, 0.2163791), (-339.5242, 2.199936))
GREY, COLOUR = 387.5744 / FOCAL, (44.85728 + 339.5242) / FOCAL


def lines(name='P{}', cameras=range(4)):
    """A line of each camera, whose pairs have baselines of their own."""
    return ''.join(f'{name.format(camera)}: '
                   + P.format(f=FOCAL, x=OFFSETS[camera][0], y=OFFSETS[camera][1]) + '\n'
                   for camera in cameras)


RAW = ('calib_time: 09-Jan-2012 13:57:47\n' + 'S_rect_00: 1.242000e+03 3.750000e+02\n'
       + lines('P_rect_0{}'))

#: The same, of images of 96 x 48.
RAW_OF_A_STRIP = RAW.replace('1.242000e+03 3.750000e+02', '96 48')


def save_sequence(folder, cameras, names=('000000', '000001')):
    for camera in cameras:
        for name in names:
            save(folder / f'image_{camera}' / f'{name}.png')


def test_odometry_has_one_calibration_for_all_images_and_their_times(tmp_path):
    sequence = tmp_path / 'dataset' / 'sequences' / '00'
    save_sequence(sequence, (0, 1))
    (sequence / 'calib.txt').write_text(lines() + 'Tr: 1 0 0 0 0 1 0 0 0 0 1 0\n')
    (sequence / 'times.txt').write_text('0.000000e+00\n1.037360e-01\n')
    for start in (sequence, sequence.parent, tmp_path / 'dataset', tmp_path):
        pairs = list(open_dataset(start))
        assert pairs[0].calibration.baseline_m == pytest.approx(GREY)
        assert pairs[1].stamp_ns - pairs[0].stamp_ns == 103736000
        assert pairs[0].stamp_ns > 0


def test_min_depth_goes_by_the_calibration_of_odometry(tmp_path, capsys):
    for camera in (0, 1):
        path = tmp_path / 'sequences' / '00' / f'image_{camera}' / '000000.png'
        path.parent.mkdir(parents=True)
        files.write_image(path, np.random.default_rng(camera).integers(
            0, 255, (120, 160)).astype(np.uint8))
    (tmp_path / 'sequences' / '00' / 'calib.txt').write_text(lines())
    assert main(['evaluate', str(tmp_path / 'sequences'), '--preset', 'sad_fast', '--backend',
                 'cpu', '--repeat', '1', '--set', 'min_depth=20', '--json']) == 0
    pair, = json.loads(capsys.readouterr().out)['pairs']
    # 387.6 pixels x metres / 20 m, in steps of 8.
    assert pair['disparity_range'] == 24


def test_colour_images_of_2012_have_the_truth_of_the_grey_camera_and_a_warning(tmp_path):
    for camera in (0, 1):
        save(tmp_path / 'training' / f'colored_{camera}' / '000000_10.png')
    (tmp_path / 'training' / 'calib').mkdir()
    (tmp_path / 'training' / 'calib' / '000000.txt').write_text(lines())
    assert not open_dataset(tmp_path).warnings
    (tmp_path / 'training' / 'disp_occ').mkdir()
    files.write_disparity_png(tmp_path / 'training' / 'disp_occ' / '000000_10.png',
                              np.full((4, 6), 9.0))
    dataset = open_dataset(tmp_path)
    assert dataset[0].truth.max() == 9
    assert dataset[0].calibration.baseline_m == pytest.approx(COLOUR)
    assert 'that of the grey left camera' in dataset.warnings[0]
    for camera in (0, 1):
        save(tmp_path / 'training' / f'image_{camera}' / '000000_10.png')
    dataset = open_dataset(tmp_path)
    assert dataset[0].calibration.baseline_m == pytest.approx(GREY)
    assert not dataset.warnings


def test_odometry_in_colour_has_the_baseline_of_cameras_2_and_3(tmp_path):
    save_sequence(tmp_path / '00', (2, 3))
    (tmp_path / '00' / 'calib.txt').write_text(lines())
    assert open_dataset(tmp_path)[0].calibration.baseline_m == pytest.approx(COLOUR)
    save_sequence(tmp_path / '00', (0, 1))
    assert open_dataset(tmp_path)[0].calibration.baseline_m == pytest.approx(GREY)


def test_the_pair_with_a_truth_is_taken_where_both_are_there(tmp_path):
    save_sequence(tmp_path, range(4), ('000000_10',))
    (tmp_path / 'calib_cam_to_cam').mkdir()
    (tmp_path / 'calib_cam_to_cam' / '000000.txt').write_text(RAW)
    assert open_dataset(tmp_path)[0].calibration.baseline_m == pytest.approx(GREY)
    (tmp_path / 'disp_occ_0').mkdir()
    files.write_disparity_png(tmp_path / 'disp_occ_0' / '000000_10.png', np.full((4, 6), 9.0))
    pair, = open_dataset(tmp_path)
    assert pair.calibration.baseline_m == pytest.approx(COLOUR)
    assert pair.truth.max() == 9


@pytest.mark.parametrize(('cameras', 'baseline'), [(('00', '01'), GREY), (('02', '03'), COLOUR)])
def test_raw_data_is_calibrated_by_the_day_and_stamped_by_its_dates(tmp_path, cameras, baseline):
    drive = tmp_path / '2011_09_26' / '2011_09_26_drive_0001_sync'
    for camera in cameras:
        for number in range(2):
            save(drive / f'image_{camera}' / 'data' / f'{number:010d}.png')
    (drive / f'image_{cameras[0]}' / 'timestamps.txt').write_text(
        '2011-09-26 13:02:25.964389445\n2011-09-26 13:02:26.067768622\n')
    (drive.parent / 'calib_cam_to_cam.txt').write_text(RAW)
    for start in (drive, drive.parent, tmp_path):
        first, second = open_dataset(start)
        assert first.calibration.baseline_m == pytest.approx(baseline)
        assert first.stamp_ns == 1317042145964389445
        assert second.stamp_ns - first.stamp_ns == 103379177


def test_kitti_360_has_its_rectified_images_and_perspective_txt(tmp_path):
    drive = tmp_path / 'data_2d_raw' / '2013_05_28_drive_0000_sync'
    for camera in ('00', '01'):
        save(drive / f'image_{camera}' / 'data_rect' / '0000000000.png')
    (tmp_path / 'calibration').mkdir()
    (tmp_path / 'calibration' / 'perspective.txt').write_text(
        'S_rect_00: 1408.000000 376.000000\n' + lines('P_rect_0{}', (0, 1)))
    assert open_dataset(tmp_path)[0].calibration.baseline_m == pytest.approx(GREY)


@pytest.mark.parametrize('text', ['now\n', '1\nnan\n', '-1\n', '1e300\n', '2011-99-26 13:02\n',
                                  '\xff'])
def test_times_that_are_none_are_rejected_by_their_file(tmp_path, text):
    save_sequence(tmp_path, (0, 1))
    (tmp_path / 'times.txt').write_text(text, encoding='latin-1')
    with pytest.raises(ValueError, match=r'times\.txt'):
        open_dataset(tmp_path)


@pytest.mark.parametrize(('image', 'baseline'), [
    ('image_00/data/0.png', GREY), ('image_02/data/0.png', COLOUR), ('image_0/0.png', GREY),
    ('image_2/0.png', COLOUR), ('colored_0/0.png', COLOUR)])
def test_the_folder_of_the_image_tells_the_cameras_of_kitti(tmp_path, caplog, image, baseline):
    path = tmp_path / 'calib_cam_to_cam.txt'
    path.write_text(RAW)
    assert read_calibration(path, tmp_path / image).baseline_m == pytest.approx(baseline)
    assert 'four cameras' not in caplog.text


def test_match_says_which_cameras_of_kitti_it_took_where_no_folder_tells(
        tmp_path, capsys, caplog):
    caplog.set_level(logging.WARNING)
    path = tmp_path / 'calib_cam_to_cam.txt'
    path.write_text(RAW_OF_A_STRIP)
    scene = np.random.default_rng(3).integers(0, 255, (48, 100), np.uint8)
    for side, columns in (('left', slice(0, 96)), ('right', slice(4, 100))):
        files.write_image(tmp_path / f'{side}.png', scene[:, columns])
    assert main(['match', *(str(tmp_path / f'{side}.png') for side in ('left', 'right')),
                 '--backend', 'cpu', '--preset', 'sad_fast', '--set', 'disparity_range=16',
                 '--calibration', str(path), '--depth', str(tmp_path / 'depth.pfm'),
                 '-o', str(tmp_path / 'disparity.pfm')]) == 0
    depth = files.read_pfm(tmp_path / 'depth.pfm')
    found = float(np.nanmedian(depth[np.isfinite(depth)])) * 4 / FOCAL
    assert found == pytest.approx(GREY, rel=0.003)
    assert 'four cameras: 0 and 1 (grey) were taken, with a baseline of 0.5372 m' in caplog.text
    caplog.clear()
    path.write_text(lines(cameras=(2, 3)))
    assert read_calibration(path).baseline_m == pytest.approx(COLOUR)
    assert 'four cameras' not in caplog.text
