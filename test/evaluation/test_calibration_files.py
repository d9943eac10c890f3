"""Calibrations as other programs write them: what is read, and what is rejected by its name."""

import json

import cv2
import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration
from stereo_bp_ros.evaluation.calibrations import read_calibration as read
from stereo_bp_ros.evaluation.datasets import open_dataset
from test.evaluation.layouts import save

CALIBRATION = Calibration(400.0, 0.12, 300.0, 302.0, 200.0)
LEFT_P = [400.0, 0.0, 300.0, 0.0, 0.0, 400.0, 200.0, 0.0, 0.0, 0.0, 1.0, 0.0]
RIGHT_P = [400.0, 0.0, 302.0, -48.0, 0.0, 400.0, 200.0, 0.0, 0.0, 0.0, 1.0, 0.0]
Q = [[1, 0, 0, -300], [0, 1, 0, -200], [0, 0, 0, 400], [0, 0, 1 / 0.12, -2 / -0.12]]


def assert_read(path):
    found = read(path)
    for name in ('focal_px', 'baseline_m', 'cx_left', 'cx_right', 'cy', 'focal_y_px'):
        assert getattr(found, name) == pytest.approx(getattr(CALIBRATION, name)), name


def write_with_opencv(path, values):
    storage = cv2.FileStorage(str(path), cv2.FILE_STORAGE_WRITE)
    for name, value in values.items():
        storage.write(name, value)
    storage.release()


def rows(numbers):
    return [numbers[start:start + 4] for start in range(0, len(numbers), 4)]


@pytest.mark.parametrize('named', ['left.yaml', 'right.yaml'])
def test_camera_info_that_opencv_wrote_is_that_of_ros(tmp_path, named):
    for side, p in (('left', LEFT_P), ('right', RIGHT_P)):
        write_with_opencv(tmp_path / f'{side}.yaml', {
            'image_width': 640, 'image_height': 400, 'camera_name': side,
            'camera_matrix': np.eye(3), 'distortion_model': 'plumb_bob',
            'distortion_coefficients': np.zeros((1, 5)), 'rectification_matrix': np.eye(3),
            'projection_matrix': np.reshape(p, (3, 4))})
    assert (tmp_path / named).read_text().startswith('%YAML')
    assert_read(tmp_path / named)


def test_camera_info_beside_images_may_end_in_yml(tmp_path):
    for side, p in (('left', LEFT_P), ('right', RIGHT_P)):
        save(tmp_path / f'{side}.png')
        write_with_opencv(tmp_path / f'{side}.yml', {
            'image_width': 640, 'image_height': 400, 'projection_matrix': np.reshape(p, (3, 4))})
    assert open_dataset(tmp_path)[0].calibration.baseline_m == pytest.approx(0.12)


@pytest.mark.parametrize('key', ['P', 'p'])
def test_camera_info_may_be_a_message_as_ros_prints_it(tmp_path, key):
    for side, p in (('left', LEFT_P), ('right', RIGHT_P)):
        (tmp_path / f'{side}.yaml').write_text(yaml.safe_dump(
            {'header': {'frame_id': side}, 'height': 400, 'width': 640, key: p}) + '---\n')
    assert_read(tmp_path / 'left.yaml')


def test_one_file_may_have_the_camera_info_of_both(tmp_path):
    (tmp_path / 'stereo.yaml').write_text(yaml.safe_dump({
        side: {'image_width': 640, 'image_height': 400,
               'projection_matrix': {'rows': 3, 'cols': 4, 'data': p}}
        for side, p in (('left', LEFT_P), ('right', RIGHT_P))}))
    assert_read(tmp_path / 'stereo.yaml')


KEYS = [('P1', 'P2'), ('P0', 'P1'), ('P2', 'P3'), ('P_left', 'P_right'), ('P_l', 'P_r'),
        ('Pl', 'Pr'), ('LEFT.P', 'RIGHT.P')]


@pytest.mark.parametrize('dump', [
    pytest.param(yaml.safe_dump, id='block'), pytest.param(json.dumps, id='json'),
    pytest.param(lambda content: yaml.safe_dump(content, default_flow_style=True), id='flow'),
    pytest.param(lambda content: '%YAML:1.0\n---\n' + yaml.safe_dump(content), id='opencv')])
@pytest.mark.parametrize('form', [rows, list], ids=['nested', 'flat'])
@pytest.mark.parametrize('keys', KEYS, ids='-'.join)
def test_projection_matrices_may_be_lists_of_other_names(tmp_path, keys, form, dump):
    path = tmp_path / 'rig.yaml'
    path.write_text(dump({keys[0]: form(LEFT_P), keys[1]: form(RIGHT_P)}))
    assert_read(path)


@pytest.mark.parametrize('content', [
    {'Q': Q}, {'Q': [number for row in Q for number in row]},
    {'Q': {'rows': 4, 'cols': 4, 'data': [number for row in Q for number in row]}}])
def test_q_may_be_a_list(tmp_path, content):
    (tmp_path / 'rig.yaml').write_text(yaml.safe_dump(content))
    assert_read(tmp_path / 'rig.yaml')


@pytest.mark.parametrize('suffix', ['yaml', 'json'])
def test_matrices_of_opencv_may_have_other_names(tmp_path, suffix):
    write_with_opencv(tmp_path / f'rig.{suffix}', {
        'imageSize': (640, 400), 'P_left': np.reshape(LEFT_P, (3, 4)),
        'P_right': np.reshape(RIGHT_P, (3, 4))})
    assert_read(tmp_path / f'rig.{suffix}')


@pytest.mark.parametrize(('content', 'words'), [
    ({'P1': LEFT_P[:9], 'P2': RIGHT_P}, 'P1 should be 12 numbers, not 9'),
    ({'P1': [LEFT_P[:3], LEFT_P], 'P2': RIGHT_P}, 'P1 is not made of numbers'),
    ({'P1': 'none', 'P2': RIGHT_P}, 'P1 is no matrix'),
    ({'P1': [*LEFT_P[:11], 'x'], 'P2': RIGHT_P}, 'P1 is not made of numbers'),
    ({'P1': [*LEFT_P[:11], float('nan')], 'P2': RIGHT_P}, 'not finite'),
    ({'P1': LEFT_P}, 'no known format'),
    ({'left': {'P': LEFT_P}, 'right': {'K': 3}}, 'no known format'),
    ({'P1': LEFT_P, 'P2': [*RIGHT_P[:3], 48, *RIGHT_P[4:]]}, 'swapped cameras')])
def test_lists_that_make_no_pair_are_rejected(tmp_path, content, words):
    (tmp_path / 'rig.yaml').write_text(yaml.safe_dump(content))
    with pytest.raises(ValueError, match=words) as error:
        read(tmp_path / 'rig.yaml')
    assert 'rig.yaml' in str(error.value)


def kalibr(distortion=0.0, turn=0.0, offset=(-0.12, 0.0, 0.0), cy=200.0, **others):
    pose = np.eye(4)
    pose[:3, :3] = cv2.Rodrigues(np.array([0.0, turn, 0.0]))[0]
    pose[:3, 3] = offset
    camera = {'camera_model': 'pinhole', 'distortion_model': 'radtan', 'resolution': [640, 400],
              'distortion_coeffs': [distortion, 0, 0, 0], 'rostopic': '/cam0/image_raw'}
    return {'cam0': {**camera, 'intrinsics': [400.0, 400.0, 300.0, 200.0]},
            'cam1': {**camera, 'intrinsics': [400.0, 400.0, 302.0, cy],
                     'T_cn_cnm1': pose.tolist(), **others}}


def test_a_camchain_of_parallel_cameras_is_read(tmp_path):
    (tmp_path / 'camchain.yaml').write_text(yaml.safe_dump(kalibr()))
    assert_read(tmp_path / 'camchain.yaml')


@pytest.mark.parametrize(('options', 'words'), [
    ({'distortion': -0.28}, r'raw cameras \(distortion'),
    ({'turn': 0.01}, 'a rotation between the cameras'),
    ({'offset': (-0.12, 0.003, 0)}, 'an offset across the rows'),
    ({'offset': (0, -0.12, 0)}, 'an offset across the rows'),
    ({'cy': 203.0}, 'unequal focal lengths or rows'),
    ({'camera_model': 'omni'}, 'cam1 is no pinhole')])
def test_a_camchain_of_raw_cameras_is_rejected_with_a_way_out(tmp_path, options, words):
    (tmp_path / 'camchain.yaml').write_text(yaml.safe_dump(kalibr(**options)))
    with pytest.raises(ValueError, match=words) as error:
        read(tmp_path / 'camchain.yaml')
    assert 'a camchain of kalibr' in str(error.value)
    assert 'Rectify the images, and write P1 and P2 of cv2.stereoRectify' in str(error.value)


@pytest.mark.parametrize(('change', 'words'), [
    ({'intrinsics': [1, 2]}, 'should be 4 numbers'), ({'intrinsics': 'x'}, 'not made of numbers'),
    ({'intrinsics': [400, 400, 'x', 3]}, 'not made of numbers'),
    ({'T_cn_cnm1': [[1]]}, 'should be 16 numbers'), ({'resolution': [3]}, 'should be 2 numbers'),
    ({'intrinsics': [400, 400, float('inf'), 200]}, 'not finite'),
    ({'T_cn_cnm1': [*[[1.0, 0.0, 0.0, 0.0]] * 3, [float('inf'), 0.0, 0.0, 1.0]]}, 'not finite'),
    ({'resolution': [320, 200]}, 'different sizes: 640 x 400 and 320 x 200')])
def test_a_damaged_camchain_is_rejected_by_name(tmp_path, change, words):
    (tmp_path / 'camchain.yaml').write_text(yaml.safe_dump(kalibr(**change)))
    with pytest.raises(ValueError, match=words) as error:
        read(tmp_path / 'camchain.yaml')
    assert 'camchain.yaml' in str(error.value)


def test_a_camchain_of_one_camera_or_without_a_pose_is_rejected(tmp_path):
    content = kalibr()
    del content['cam1']['T_cn_cnm1']
    (tmp_path / 'camchain.yaml').write_text(yaml.safe_dump(content))
    with pytest.raises(ValueError, match=r'camchain\.yaml is damaged: .*T_cn_cnm1'):
        read(tmp_path / 'camchain.yaml')
    del content['cam1']
    (tmp_path / 'camchain.yaml').write_text(yaml.safe_dump(content))
    with pytest.raises(ValueError, match='with one camera'):
        read(tmp_path / 'camchain.yaml')


def write_euroc(folder, distortion):
    for camera, (cx, x) in enumerate(((300.0, 0.0), (302.0, 0.12))):
        place = folder / f'cam{camera}'
        save(place / 'data' / '1403715273262142976.png')
        # From the camera to the body, which is turned against both.
        pose = np.eye(4)
        pose[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
        pose[:3, 3] = pose[:3, :3] @ [x, 0, 0] + [0.1, 0.2, 0.3]
        (place / 'sensor.yaml').write_text(yaml.safe_dump({
            'sensor_type': 'camera', 'T_BS': {'cols': 4, 'rows': 4, 'data': pose.ravel().tolist()},
            'resolution': [640, 400], 'camera_model': 'pinhole',
            'intrinsics': [400.0, 400.0, cx, 200.0], 'distortion_model': 'radial-tangential',
            'distortion_coefficients': [distortion, 0, 0, 0]}))


def test_euroc_is_read_where_its_cameras_are_parallel_and_rejected_where_they_are_raw(tmp_path):
    write_euroc(tmp_path / 'simulated' / 'mav0', 0.0)
    assert_read(tmp_path / 'simulated' / 'mav0' / 'cam1' / 'sensor.yaml')
    pair, = open_dataset(tmp_path / 'simulated')
    assert pair.stamp_ns == 1403715273262142976
    assert pair.calibration.baseline_m == pytest.approx(0.12)
    write_euroc(tmp_path / 'MH_01_easy' / 'mav0', -0.28)
    with pytest.raises(ValueError, match=r'sensor\.yaml of EuRoC that describes raw cameras'):
        open_dataset(tmp_path / 'MH_01_easy')[0]
    (tmp_path / 'MH_01_easy' / 'mav0' / 'cam1' / 'sensor.yaml').unlink()
    with pytest.raises(ValueError, match=r'cam1/sensor\.yaml'):
        read(tmp_path / 'MH_01_easy' / 'mav0' / 'cam0' / 'sensor.yaml')


def test_settings_of_orb_slam_are_read_where_images_are_rectified(tmp_path):
    path = tmp_path / 'KITTI00-02.yaml'
    settings = ('%YAML:1.0\n\nCamera.fx: 400.0\nCamera.fy: 400.0\nCamera.cx: 300.0\n'
                'Camera.cy: 200.0\nCamera.width: 640\nCamera.height: 400\nCamera.bf: 48.0\n')
    path.write_text(settings + 'Camera.k1: 0.0\nThDepth: 35\n')
    assert read(path) == Calibration(400, 0.12, 300, 300, 200)
    path.write_text(settings + 'Camera.k1: -0.28\n')
    with pytest.raises(ValueError, match=r'ORB-SLAM that describes raw cameras \(distortion\)'):
        read(path)
    path.write_text(settings.replace('Camera.fx: 400.0\n', ''))
    with pytest.raises(ValueError, match=r'is damaged: .*Camera\.fx'):
        read(path)


ZED = ('[LEFT_CAM_HD]\nfx=699.8\nfy=699.8\ncx=645.1\ncy=363.6\nk1=-0.17\n\n[RIGHT_CAM_HD]\n'
       'fx=699.2\n\n[STEREO]\nBaseline=119.98\nTY=0.1\n')
OAK = json.dumps({'batchName': '', 'boardName': 'OAK-D', 'cameraData': [
    [1, {'cameraType': 0, 'width': 1280, 'height': 800, 'intrinsicMatrix': [[800, 0, 640]]}]],
    'stereoRectificationData': {'leftCameraSocket': 1, 'rightCameraSocket': 2}}, indent=4)


def test_xml_of_opencv_is_rejected_with_a_way_out(tmp_path):
    (tmp_path / 'stereo.xml').write_text('<?xml version="1.0"?>\n<opencv_storage>\n'
                                         '<!-- !!opencv-matrix -->\n</opencv_storage>\n')
    with pytest.raises(ValueError, match='is XML: write it as YAML'):
        read(tmp_path / 'stereo.xml')


@pytest.mark.parametrize(('text', 'words'), [
    (ZED, r'factory settings of a ZED \(SN\*\.conf\)'), (OAK, r'an OAK \(DepthAI\)')])
def test_the_settings_of_a_camera_are_rejected_by_its_name_with_a_way_out(tmp_path, text, words):
    path = tmp_path / 'camera.conf'
    path.write_text(text)
    with pytest.raises(ValueError, match=words) as error:
        read(path)
    assert 'not rectified images. Rectify the images' in str(error.value)


SIZED = {
    'calib.txt': 'cam0=[400 0 300; 0 400 200; 0 0 1]\ncam1=[400 0 302; 0 400 200; 0 0 1]\n'
                 'baseline=120\nwidth=640\nheight=400\n',
    '000000.txt': 'S_rect_00: 6.400000e+02 4.000000e+02\n' + ''.join(
        f'P_rect_0{camera}: {" ".join(map(str, p))}\n'
        for camera, p in enumerate((LEFT_P, RIGHT_P))),
    'rig.yaml': yaml.safe_dump({'imageSize': [640, 400], 'P1': LEFT_P, 'P2': RIGHT_P}),
    'stereo.yml': yaml.safe_dump({'image_width': 640, 'image_height': 400, 'P1': LEFT_P,
                                  'P2': RIGHT_P}),
    'camchain.yaml': yaml.safe_dump(kalibr()),
    'both.yaml': yaml.safe_dump({side: {'width': 640, 'height': 400, 'P': p} for side, p in (
        ('left', LEFT_P), ('right', RIGHT_P))})}


@pytest.mark.parametrize('name', SIZED)
def test_the_size_of_the_images_is_read_where_the_file_has_it(tmp_path, name):
    (tmp_path / name).write_text(SIZED[name])
    found = read(tmp_path / name)
    assert (found.width, found.height) == (640, 400)


@pytest.mark.parametrize(('change', 'words'), [
    (('width=640', 'width=wide'), 'the size of the images is not made of numbers'),
    (('width=640', 'width=0'), 'of images of 0 x 400 pixels'),
    (('width=640', 'width=6.5'), 'of images of 6.5 x 400 pixels'),
    (('width=640', 'width=99999'), 'sides have 1 to 65536'),
    (('width=640', 'width='), 'the size of the images should be 2 numbers')])
def test_a_size_that_no_image_has_is_rejected(tmp_path, change, words):
    (tmp_path / 'calib.txt').write_text(SIZED['calib.txt'].replace(*change))
    with pytest.raises(ValueError, match=words):
        read(tmp_path / 'calib.txt')
