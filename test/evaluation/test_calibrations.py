"""Calibrations in the files of data sets, of ROS and of OpenCV, and what readers refuse."""

import cv2
import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import calibrations, files
from stereo_bp_ros.evaluation.datasets import open_dataset
from test.evaluation.layouts import save, save_pair

CALIBRATION = Calibration(400.0, 0.12, 300.0, 302.0, 200.0)


def test_middlebury_calibration_has_both_columns_and_metres(tmp_path):
    (tmp_path / 'calib.txt').write_text(
        'cam0=[994.978 0 311.193; 0 994.978 254.877; 0 0 1]\n'
        'cam1=[994.978 0 342.279; 0 994.978 254.877; 0 0 1]\n'
        'doffs=31.086\nbaseline=193.001\nwidth=741\nheight=500\n')
    numbers = calibrations.read_calibration(tmp_path / 'calib.txt')
    assert (numbers.focal_px, numbers.cy) == (994.978, 254.877)
    assert numbers.baseline_m == pytest.approx(0.193001)
    assert numbers.cx_right - numbers.cx_left == pytest.approx(31.086)


def test_projection_matrices_give_focal_length_and_baseline(tmp_path):
    (tmp_path / 'P_left.txt').write_text('400 0 300 0\n0 400 200 0\n0 0 1 0\n')
    (tmp_path / 'P_right.txt').write_text('400 0 302 -48\n0 400 200 0\n0 0 1 0\n')
    numbers = calibrations.read_calibration(tmp_path / 'P_left.txt')
    assert (numbers.focal_px, numbers.cx_left, numbers.cx_right, numbers.cy) == (
        400, 300, 302, 200)
    assert numbers.baseline_m == pytest.approx(0.12)


def test_kitti_calibration_takes_the_pair_of_cameras_asked_for(tmp_path):
    (tmp_path / '0.txt').write_text(
        'P0: 700 0 600 0 0 700 180 0 0 0 1 0\nP1: 700 0 600 -350 0 700 180 0 0 0 1 0\n'
        'P2: 700 0 600 35 0 700 180 0 0 0 1 0\nP3: 700 0 600 -140 0 700 180 0 0 0 1 0\n')
    assert calibrations.read_calibration(tmp_path / '0.txt').baseline_m == pytest.approx(0.5)
    colour = calibrations.read_calibration(tmp_path / '0.txt', tmp_path / 'image_2' / '0.png')
    assert colour.baseline_m == pytest.approx(0.25)


@pytest.mark.parametrize(('text', 'words'), [
    ('cam0=[1 0 0; 0 1 0; 0 0 1]\n', 'no cam1'),
    ('cam0=[1 0; 0 1]\ncam1=[1 0 0; 0 1 0; 0 0 1]\nbaseline=1\n', 'cam0 should be 9'),
    ('cam0=[9 0 1e30; 0 9 0; 0 0 1]\ncam1=[9 0 0; 0 9 0; 0 0 1]\nbaseline=1\n', 'beyond'),
    ('cam0=[9 0 nan; 0 9 0; 0 0 1]\ncam1=[9 0 0; 0 9 0; 0 0 1]\nbaseline=1\n', 'not finite'),
    ('cam0=[1 0 a; 0 1 0; 0 0 1]\ncam1=[1 0 0; 0 1 0; 0 0 1]\nbaseline=1\n', 'not made of'),
    ('cam0=[9 0 0; 0 9 0; 0 0 1]\ncam1=[9 0 0; 0 9 0; 0 0 1]\nbaseline=0\n', 'baseline'),
])
def test_a_bad_calibration_is_refused_by_name(tmp_path, text, words):
    (tmp_path / 'calib.txt').write_text(text)
    with pytest.raises(ValueError, match=words) as error:
        calibrations.read_calibration(tmp_path / 'calib.txt')
    assert 'calib.txt' in str(error.value)


def camera_info(path, p, width=640, **others):
    """One camera as camera_calibration and camera_info_manager write it."""
    k = [410.5, 0.0, 301.5, 0.0, 409.5, 199.5, 0.0, 0.0, 1.0]
    path.write_text(yaml.safe_dump({
        'image_width': width, 'image_height': 400, 'camera_name': f'stereo/{path.stem}',
        'camera_matrix': {'rows': 3, 'cols': 3, 'data': k},
        'distortion_model': 'plumb_bob',
        'distortion_coefficients': {'rows': 1, 'cols': 5, 'data': [-0.3, 0.1, 0.0, 0.0, 0.0]},
        'rectification_matrix': {'rows': 3, 'cols': 3, 'data': [1, 0, 0, 0, 1, 0, 0, 0, 1]},
        'projection_matrix': {'rows': 3, 'cols': 4, 'data': list(p)}, **others}))


LEFT_P = (400.0, 0, 300, 0, 0, 400, 200, 0, 0, 0, 1, 0)
RIGHT_P = (400.0, 0, 302, -48, 0, 400, 200, 0, 0, 0, 1, 0)


def write_camera_infos(folder, right=RIGHT_P):
    camera_info(folder / 'left.yaml', LEFT_P)
    camera_info(folder / 'right.yaml', right)


@pytest.mark.parametrize('named', ['left.yaml', 'right.yaml'])
def test_camera_info_of_ros_is_read_from_the_files_of_both_cameras(tmp_path, named):
    write_camera_infos(tmp_path)
    assert calibrations.read_calibration(tmp_path / named) == CALIBRATION


def test_camera_info_that_makes_no_pair_is_refused_by_name(tmp_path):
    camera_info(tmp_path / 'left.yaml', LEFT_P)
    with pytest.raises(ValueError, match=r'left\.yaml is of one camera: put right\.yaml'):
        calibrations.read_calibration(tmp_path / 'left.yaml')
    camera_info(tmp_path / 'front.yaml', LEFT_P)
    with pytest.raises(ValueError, match=r'front\.yaml is of one camera.*left nor right'):
        calibrations.read_calibration(tmp_path / 'front.yaml')
    camera_info(tmp_path / 'right.yaml', RIGHT_P, width=320)
    with pytest.raises(ValueError, match='different sizes: 640 x 400 and 320 x 400'):
        calibrations.read_calibration(tmp_path / 'left.yaml')
    camera_info(tmp_path / 'right.yaml', LEFT_P)
    with pytest.raises(ValueError, match='baseline is'):
        calibrations.read_calibration(tmp_path / 'left.yaml')
    for data in ('many', [1, 2], None):
        camera_info(tmp_path / 'right.yaml', RIGHT_P, projection_matrix={'data': data})
        with pytest.raises(ValueError, match=r'right\.yaml.*projection_matrix'):
            calibrations.read_calibration(tmp_path / 'left.yaml')


def opencv_stereo(path, names, tx=-0.12):
    """The matrices that cv2.stereoRectify finds, as the stereo calibration of OpenCV stores them.

    :returns: them, by their names.
    """
    k = [np.array([[focal, 0, cx], [0, focal, 195.0], [0, 0, 1]])
         for focal, cx in ((405.0, 310.0), (402.0, 325.0))]
    turn, _ = cv2.Rodrigues(np.array([0.002, 0.01, -0.003]))
    found = dict(zip(('R1', 'R2', 'P1', 'P2', 'Q'), cv2.stereoRectify(
        k[0], np.zeros(5), k[1], np.zeros(5), (640, 400), turn, np.array([[tx], [0.001], [0.0]]),
        flags=0)[:5], strict=True))
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name in names:
        storage.write(name, found[name])
    storage.release()
    return found


@pytest.mark.parametrize('names', [('R1', 'R2', 'P1', 'P2', 'Q'), ('P1', 'P2'), ('Q',)])
def test_a_stereo_calibration_of_opencv_is_read_from_its_projections_or_from_q(tmp_path, names):
    found = opencv_stereo(tmp_path / 'extrinsics.yml', names)
    numbers = calibrations.read_calibration(tmp_path / 'extrinsics.yml')
    p1, p2 = found['P1'], found['P2']
    assert numbers.focal_px == pytest.approx(p1[0, 0])
    assert numbers.baseline_m == pytest.approx(np.hypot(0.12, 0.001))
    assert numbers.shift == pytest.approx(p1[0, 2] - p2[0, 2])
    assert abs(numbers.shift) > 1
    assert (numbers.cx_left, numbers.cy) == (pytest.approx(p1[0, 2]), pytest.approx(p1[1, 2]))


def test_a_stereo_calibration_of_opencv_that_says_too_little_is_refused(tmp_path):
    path = tmp_path / 'stereo.yml'
    opencv_stereo(path, ('R1', 'R2'))
    with pytest.raises(ValueError, match=r'stereo\.yml has neither P1 and P2 nor Q'):
        calibrations.read_calibration(path)
    opencv_stereo(path, ('P1', 'P2'))
    text = path.read_text()
    path.write_text(text[:len(text) // 2])
    with pytest.raises(ValueError, match=r'stereo\.yml'):
        calibrations.read_calibration(path)
    for row in ('P1: 3\n', 'P1: !!opencv-matrix\n   rows: -2\n', 'P1: [\n'):
        path.write_text('%YAML:1.0\n---\n# !!opencv-matrix\n' + row)
        with pytest.raises(ValueError, match=r'stereo\.yml'):
            calibrations.read_calibration(path)


@pytest.mark.parametrize('damage', [
    ('cols: 4', 'cols<<: 4'), ('cols: 4', 'cols: 3'), ('rows: 4', 'rows: -4'),
    ('rows: 4', 'rows: 1073741825'), ('!!opencv-matrix', '!!opencv-nd-matrix'),
    ('-8', '&a [*a]'), ('data: [', 'data: {'), ('data: [', 'data: 3 # ['),
    ('-8', '0x' + 'f' * 5000)])
def test_a_matrix_of_opencv_that_is_damaged_is_refused(tmp_path, damage):
    sound = ('%YAML:1.0\n---\nQ: !!opencv-matrix\n   rows: 4\n   cols: 4\n   dt: d\n'
             '   data: [ 1., 0, 0, -8, 0, 1, 0, -6, 0, 0, 0, 1.e+02, 0, 0, 8., 0 ]\n')
    path = tmp_path / 'stereo.yml'
    path.write_text(sound)
    assert calibrations.read_calibration(path) == Calibration(100.0, 0.125, 8.0, 8.0, 6.0)
    path.write_text(sound.replace(*damage) + '# !!opencv-matrix')
    for _ in range(3):              # OpenCV's own parser damages the memory of the process
        with pytest.raises(ValueError, match=r'stereo\.yml'):
            calibrations.read_calibration(path)


def test_cameras_one_above_the_other_are_refused(tmp_path):
    k = np.array([[400.0, 0, 320], [0, 400, 200], [0, 0, 1]])
    p1, p2 = cv2.stereoRectify(k, np.zeros(5), k, np.zeros(5), (640, 400), np.eye(3),
                               np.array([[0.0], [-0.12], [0.0]]))[2:4]
    storage = cv2.FileStorage(str(tmp_path / 'stereo.yml'), cv2.FILE_STORAGE_WRITE)
    storage.write('P1', p1)
    storage.write('P2', p2)
    storage.release()
    with pytest.raises(ValueError, match='vertical pair: the cameras are'):
        calibrations.read_calibration(tmp_path / 'stereo.yml')


CONTENTS = {
    'kitti colour alone': 'P2: {}\nP3: {}\n', 'driving stereo':
        'S_101: 1 2\nT_103: -0.12 0 0\nP_rect_101: {}\nP_rect_103: {}\n'}


@pytest.mark.parametrize('kind', CONTENTS)
def test_the_content_of_a_calibration_tells_its_format(tmp_path, kind):
    path = tmp_path / 'calib.txt'
    path.write_text(CONTENTS[kind].format(*(' '.join(map(str, p)) for p in (LEFT_P, RIGHT_P))))
    assert calibrations.read_calibration(path) == CALIBRATION


def test_the_content_of_projections_and_of_virtual_kitti_tells_their_format(tmp_path):
    for side, p in (('left', LEFT_P), ('right', RIGHT_P)):
        (tmp_path / f'P_{side}.txt').write_text(' '.join(map(str, p)))
        assert calibrations.other_side(tmp_path / f'P_{side}.txt').name != f'P_{side}.txt'
    assert calibrations.read_calibration(tmp_path / 'P_right.txt') == CALIBRATION
    (tmp_path / 'intrinsic.txt').write_text(
        'frame cameraID K[0,0] K[1,1] K[0,2] K[1,2]\n0 0 725.0087 725.0087 620.5 187\n')
    assert calibrations.read_calibration(tmp_path / 'intrinsic.txt').cx_right == 620.5


@pytest.mark.parametrize(('text', 'words'), [
    ('', 'no known format'), ('no calibration', r'P1 and P2, or Q'), ('a: 1\n', 'no known format'),
    ('frame cameraID\n0 1 7 7 6 1\n', 'no line with 6 numbers of camera 0'),
    ('P_rect_101: 1 2\n', 'P_rect_101 should be 12'),
    ('P_rect_103: 1\n', 'no P_rect_101'), ('P0: 1\n', 'P0 should be 12')])
def test_a_calibration_of_no_known_format_is_refused_with_those_that_are(tmp_path, text, words):
    (tmp_path / 'calib.txt').write_text(text)
    with pytest.raises(ValueError, match=words) as error:
        calibrations.read_calibration(tmp_path / 'calib.txt')
    assert 'calib.txt' in str(error.value)


@pytest.mark.parametrize('name', ['stereo.yaml', 'stereo.yml', 'extrinsics.yml'])
def test_a_folder_of_a_pair_may_have_the_calibration_of_opencv(tmp_path, name):
    save_pair(tmp_path)
    opencv_stereo(tmp_path / name, ('P1', 'P2'))
    assert open_dataset(tmp_path)[0].calibration.baseline_m == pytest.approx(0.12, abs=1e-5)


def test_a_folder_of_a_pair_or_a_sequence_may_have_the_calibration_of_ros(tmp_path):
    save_pair(tmp_path / 'hall')
    camera_info(tmp_path / 'hall' / 'left.yaml', LEFT_P)
    assert open_dataset(tmp_path / 'hall')[0].calibration is None       # of one camera alone
    for side in ('left', 'right'):
        save(tmp_path / 'drive' / side / '1.png')
    for name in ('hall', 'drive'):
        write_camera_infos(tmp_path / name)
        assert open_dataset(tmp_path / name)[0].calibration == CALIBRATION


def test_match_takes_its_depth_from_the_calibration_of_ros(tmp_path):
    scene = np.random.default_rng(3).integers(0, 255, (400, 644), np.uint8)
    cv2.imwrite(str(tmp_path / 'left.png'), scene[:, :640])
    cv2.imwrite(str(tmp_path / 'right.png'), scene[:, 4:])      # 4 pixels of disparity
    write_camera_infos(tmp_path)
    assert main(['match', str(tmp_path / 'left.png'), str(tmp_path / 'right.png'),
                 '--preset', 'sad_fast', '--set', 'disparity_range=16', '--backend', 'cpu',
                 '--calibration', str(tmp_path / 'left.yaml'), '--depth',
                 str(tmp_path / 'depth.pfm'), '-o', str(tmp_path / 'disparity.pfm')]) == 0
    depth = files.read_pfm(tmp_path / 'depth.pfm')
    assert np.nanmedian(depth) == pytest.approx(400 * 0.12 / (4 - (300 - 302)), rel=0.02)
