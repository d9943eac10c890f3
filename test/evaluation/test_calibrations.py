"""Calibrations in the files of data sets, ROS, OpenCV and SLAM systems; what is rejected."""

import json

import cv2
import numpy as np
import pytest
import yaml

from stereo_bp_ros import Calibration
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from test.evaluation.layouts import save, save_pair

CALIBRATION = Calibration(400.0, 0.12, 300.0, 302.0, 200.0)
LEFT_P = [400.0, 0.0, 300.0, 0.0, 0.0, 400.0, 200.0, 0.0, 0.0, 0.0, 1.0, 0.0]
RIGHT_P = [400.0, 0.0, 302.0, -48.0, 0.0, 400.0, 200.0, 0.0, 0.0, 0.0, 1.0, 0.0]
SIDES = {'left': LEFT_P, 'right': RIGHT_P}
Q = [[1, 0, 0, -300], [0, 1, 0, -200], [0, 0, 0, 400], [0, 0, 1 / 0.12, -2 / -0.12]]
FLAT_Q = [number for row in Q for number in row]
SIZE = {'image_width': 640, 'image_height': 400}
MIDDLEBURY = ('cam0=[400 0 300; 0 400 200; 0 0 1]\ncam1=[400 0 302; 0 400 200; 0 0 1]\n'
              'doffs=2\nbaseline=120\nwidth=640\nheight=400\n')
LINES = [' '.join(map(str, p)) for p in SIDES.values()]


def rows(numbers):
    return [numbers[start:start + 4] for start in range(0, len(numbers), 4)]


def by_opencv(suffix='.yaml', **values):
    """The text of a file that OpenCV writes."""
    storage = cv2.FileStorage(suffix, cv2.FILE_STORAGE_WRITE | cv2.FILE_STORAGE_MEMORY)
    for name, value in values.items():
        storage.write(name, value)
    return storage.releaseAndGetString()


def camera_info(p, **others):
    """One camera as camera_calibration and camera_info_manager write it."""
    return yaml.safe_dump({
        **SIZE, 'camera_matrix': {'rows': 3, 'cols': 3, 'data': [410.5, 0, 301, 0, 409, 199]},
        'distortion_coefficients': {'rows': 1, 'cols': 5, 'data': [-0.3, 0.1, 0.0, 0.0, 0.0]},
        'projection_matrix': {'rows': 3, 'cols': 4, 'data': list(p)}, **others})


def kalibr(distortion=0.0, turn=0.0, offset=(-0.12, 0.0, 0.0), cy=200.0, **others):
    pose = np.eye(4)
    pose[:3, :3] = cv2.Rodrigues(np.array([0.0, turn, 0.0]))[0]
    pose[:3, 3] = offset
    camera = {'camera_model': 'pinhole', 'distortion_model': 'radtan', 'resolution': [640, 400],
              'distortion_coeffs': [distortion, 0, 0, 0], 'rostopic': '/cam0/image_raw'}
    return {'cam0': {**camera, 'intrinsics': [400.0, 400.0, 300.0, 200.0]},
            'cam1': {**camera, 'intrinsics': [400.0, 400.0, 302.0, cy],
                     'T_cn_cnm1': pose.tolist(), **others}}


def euroc(distortion=0.0):
    """Both sensor.yaml of a body that is turned against both cameras, which are parallel."""
    files = {}
    for camera, (cx, x) in enumerate(((300.0, 0.0), (302.0, 0.12))):
        pose = np.eye(4)
        pose[:3, :3] = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
        pose[:3, 3] = pose[:3, :3] @ [x, 0, 0] + [0.1, 0.2, 0.3]
        files[f'cam{camera}/sensor.yaml'] = yaml.safe_dump({
            'sensor_type': 'camera', 'T_BS': {'cols': 4, 'rows': 4, 'data': pose.ravel().tolist()},
            'resolution': [640, 400], 'camera_model': 'pinhole',
            'intrinsics': [400.0, 400.0, cx, 200.0], 'distortion_model': 'radial-tangential',
            'distortion_coefficients': [distortion, 0, 0, 0]})
    return files


#: Files by format; each of them is read, with the others beside it.
WITH_SIZE = {
    'middlebury': {'calib.txt': MIDDLEBURY},
    'KITTI, rectified': {'000000.txt': 'S_rect_00: 6.400000e+02 4.000000e+02\n' + ''.join(
        f'P_rect_0{camera}: {line}\n' for camera, line in enumerate(LINES))},
    'camera_info': {f'{side}.yaml': camera_info(p) for side, p in SIDES.items()},
    'camera_info of OpenCV': {f'{side}.yaml': by_opencv(
        **SIZE, distortion_model='plumb_bob', distortion_coefficients=np.zeros((1, 5)),
        projection_matrix=np.reshape(p, (3, 4))) for side, p in SIDES.items()},
    'a message': {f'{side}.yaml': yaml.safe_dump({
        'header': {'frame_id': side}, 'height': 400, 'width': 640, 'p': p}) + '---\n'
        for side, p in SIDES.items()},
    'both cameras': {'stereo.yaml': yaml.safe_dump({
        side: {**SIZE, 'P': p} for side, p in SIDES.items()})},
    'lists': {'rig.yaml': yaml.safe_dump({'imageSize': [640, 400], 'P1': LEFT_P, 'P2': RIGHT_P})},
    'lists and width': {'stereo.yml': yaml.safe_dump({**SIZE, 'P1': LEFT_P, 'P2': RIGHT_P})},
    'kalibr': {'camchain.yaml': yaml.safe_dump(kalibr())},
    'EuRoC': euroc()}
WITHOUT_SIZE = {
    'projections': dict(zip(('P_left.txt', 'P_right.txt'), LINES, strict=True)),
    'KITTI, colour alone': {'calib.txt': 'P2: {}\nP3: {}\n'.format(*LINES)},
    'DrivingStereo': {'calib.txt': (
        'S_101: 1 2\nT_103: -0.12 0 0\nP_rect_101: {}\nP_rect_103: {}\n'.format(*LINES))},
    'JSON': {'rig.yaml': json.dumps({'P_l': rows(LEFT_P), 'P_r': rows(RIGHT_P)})},
    'nested': {'rig.yaml': yaml.safe_dump({'P_left': rows(LEFT_P), 'P_right': rows(RIGHT_P)})},
    'flow': {'rig.yaml': yaml.safe_dump({'LEFT.P': LEFT_P, 'RIGHT.P': RIGHT_P},
                                        default_flow_style=True)},
    'by hand': {'rig.yaml': '%YAML:1.0\n---\n' + yaml.safe_dump({'P0': LEFT_P, 'P1': RIGHT_P})},
    'Q': {'rig.yaml': yaml.safe_dump({'Q': Q})}, 'flat Q': {'r': yaml.safe_dump({'Q': FLAT_Q})},
    'Q with its shape': {'rig.yaml': yaml.safe_dump({
        'Q': {'rows': 4, 'cols': 4, 'data': FLAT_Q}})},
    **{f'OpenCV{suffix}': {f'rig{suffix}': by_opencv(
        suffix, P_left=np.reshape(LEFT_P, (3, 4)), P_right=np.reshape(RIGHT_P, (3, 4)))}
        for suffix in ('.yaml', '.json')}}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize('kind', [*WITH_SIZE, *WITHOUT_SIZE])
def test_the_content_of_a_calibration_tells_its_format(tmp_path, kind):
    files = {**WITH_SIZE, **WITHOUT_SIZE}[kind]
    write(tmp_path, files)
    for name in files:
        found = Calibration.from_file(tmp_path / name)
        for field in ('focal_px', 'baseline_m', 'cx_left', 'cx_right', 'cy', 'focal_y_px'):
            assert getattr(found, field) == pytest.approx(getattr(CALIBRATION, field)), field
        assert (found.width, found.height) == ((640, 400) if kind in WITH_SIZE else (0, 0))


@pytest.mark.parametrize('names', [('P1', 'P2'), ('Q',)])
def test_a_stereo_calibration_of_opencv_is_read_from_its_projections_or_from_q(tmp_path, names):
    k = [np.array([[focal, 0, cx], [0, focal, 195.0], [0, 0, 1]])
         for focal, cx in ((405.0, 310.0), (402.0, 325.0))]
    turn, _ = cv2.Rodrigues(np.array([0.002, 0.01, -0.003]))
    found = dict(zip(('R1', 'R2', 'P1', 'P2', 'Q'), cv2.stereoRectify(
        k[0], np.zeros(5), k[1], np.zeros(5), (640, 400), turn,
        np.array([[-0.12], [0.001], [0.0]]), flags=0)[:5], strict=True))
    path = tmp_path / 'extrinsics.yml'
    path.write_text(by_opencv(R1=found['R1'], **{name: found[name] for name in names}))
    numbers, p1, p2 = Calibration.from_file(path), found['P1'], found['P2']
    assert numbers.focal_px == pytest.approx(p1[0, 0])
    assert numbers.baseline_m == pytest.approx(np.hypot(0.12, 0.001))
    assert numbers.shift == pytest.approx(p1[0, 2] - p2[0, 2])
    assert abs(numbers.shift) > 1
    assert (numbers.cx_left, numbers.cy) == (pytest.approx(p1[0, 2]), pytest.approx(p1[1, 2]))


ORB_SLAM = ('%YAML:1.0\n\nCamera.fx: 400.0\nCamera.fy: 400.0\nCamera.cx: 300.0\n'
            'Camera.cy: 200.0\nCamera.width: 640\nCamera.height: 400\nCamera.bf: 48.0\n')


@pytest.mark.parametrize(('text', 'expected'), [
    (ORB_SLAM + 'Camera.k1: 0.0\nThDepth: 35\n', Calibration(400, 0.12, 300, 300, 200))])
def test_one_camera_stands_for_both_where_they_are_the_same(tmp_path, text, expected):
    (tmp_path / 'settings.yaml').write_text(text)
    assert Calibration.from_file(tmp_path / 'settings.yaml') == expected


ZED = ('[LEFT_CAM_HD]\nfx=699.8\nfy=699.8\ncx=645.1\ncy=363.6\nk1=-0.17\n\n[RIGHT_CAM_HD]\n'
       'fx=699.2\n\n[STEREO]\nBaseline=119.98\nTY=0.1\n')
OAK = json.dumps({'batchName': '', 'boardName': 'OAK-D', 'cameraData': [
    [1, {'cameraType': 0, 'width': 1280, 'height': 800, 'intrinsicMatrix': [[800, 0, 640]]}]],
    'stereoRectificationData': {'leftCameraSocket': 1, 'rightCameraSocket': 2}}, indent=4)


@pytest.mark.parametrize(('content', 'words'), [
    (kalibr(distortion=-0.28), r'kalibr that describes raw cameras \(distortion'),
    (kalibr(turn=0.01), 'kalibr .*a rotation between the cameras'),
    (kalibr(offset=(-0.12, 0.003, 0)), 'an offset across the rows'),
    (kalibr(offset=(0, -0.12, 0)), 'an offset across the rows'),
    (kalibr(cy=203.0), 'unequal focal lengths or rows'),
    (kalibr(camera_model='omni'), 'cam1 is no pinhole'),
    (ORB_SLAM + 'Camera.k1: -0.28\n', r'ORB-SLAM that describes raw cameras \(distortion\)'),
    (ZED, r'factory settings of a ZED \(SN\*\.conf\)'), (OAK, r'an OAK \(DepthAI\)')])
def test_raw_cameras_are_rejected_by_the_name_of_their_format_with_a_way_out(
        tmp_path, content, words):
    path = tmp_path / 'camera.conf'
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    with pytest.raises(ValueError, match=words) as error:
        Calibration.from_file(path)
    assert 'Rectify the images, and write P1 and P2 of cv2.stereoRectify' in str(error.value)


def without_pose():
    content = kalibr()
    del content['cam1']['T_cn_cnm1']
    return content


SIX_NUMBERS = 'cam0=[9 0 {}; 0 9 0; 0 0 1]\ncam1=[9 0 0; 0 9 0; 0 0 1]\nbaseline={}\n'


@pytest.mark.parametrize(('content', 'words'), [
    ('cam0=[1 0 0; 0 1 0; 0 0 1]\n', 'no cam1'), (SIX_NUMBERS.format('0; 0 1', 1), 'cam0 should'),
    (SIX_NUMBERS.format('1e30', 1), 'beyond'), (SIX_NUMBERS.format('nan', 1), 'not finite'),
    (SIX_NUMBERS.format('a', 1), 'not made of'), (SIX_NUMBERS.format(0, 0), 'baseline'),
    (MIDDLEBURY.replace('width=640', 'width=wide'), 'size of the images is not made of numbers'),
    (MIDDLEBURY.replace('width=640', 'width=0'), 'of images of 0 x 400 pixels'),
    (MIDDLEBURY.replace('width=640', 'width=6.5'), 'of images of 6.5 x 400 pixels'),
    (MIDDLEBURY.replace('width=640', 'width=99999'), 'sides have 1 to 65536'),
    (MIDDLEBURY.replace('width=640', 'width='), 'size of the images should be 2 numbers'),
    ('', 'no known format'), ('no calibration', r'P1 and P2, or Q'), ('a: 1\n', 'no known format'),
    ('P_rect_101: 1 2\n', 'P_rect_101 should be 12'), ('P_rect_103: 1\n', 'no P_rect_101'),
    ('P0: 1\n', 'P0 should be 12'),
    ('<?xml version="1.0"?>\n<opencv_storage>\n</opencv_storage>\n', 'is XML: write it as YAML'),
    (ORB_SLAM.replace('Camera.fx: 400.0\n', ''), r'is damaged: .*Camera\.fx'),
    ({'P1': LEFT_P[:9], 'P2': RIGHT_P}, 'P1 should be 12 numbers, not 9'),
    ({'P1': [LEFT_P[:3], LEFT_P], 'P2': RIGHT_P}, 'P1 is not made of numbers'),
    ({'P1': 'none', 'P2': RIGHT_P}, 'P1 is no matrix'),
    ({'P1': [*LEFT_P[:11], float('nan')], 'P2': RIGHT_P}, 'not finite'),
    ({'P1': LEFT_P}, 'no known format'),
    ({'left': {'P': LEFT_P}, 'right': {'K': 3}}, 'no known format'),
    ({'P1': LEFT_P, 'P2': [*RIGHT_P[:3], 48, *RIGHT_P[4:]]}, 'swapped cameras'),
    ({'P1': LEFT_P, 'P2': [*LEFT_P[:7], -48, *LEFT_P[8:]]}, 'vertical pair: the cameras are'),
    (kalibr(intrinsics=[1, 2]), 'should be 4 numbers'),
    (kalibr(intrinsics=[400, 400, 'x', 3]), 'not made of numbers'),
    (kalibr(T_cn_cnm1=[[1]]), 'should be 16 numbers'),
    (kalibr(resolution=[320, 200]), 'different sizes: 640 x 400 and 320 x 200'),
    (without_pose(), r'is damaged: .*T_cn_cnm1'),
    ({'cam0': kalibr()['cam0']}, 'with one camera'),
    (by_opencv(R1=np.eye(3)), 'has neither P1 and P2 nor Q')])
def test_what_makes_no_pair_is_rejected_by_name(tmp_path, content, words):
    path = tmp_path / 'calib.txt'
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    with pytest.raises(ValueError, match=words) as error:
        Calibration.from_file(path)
    assert 'calib.txt' in str(error.value)


@pytest.mark.parametrize('damage', [
    ('cols: 4', 'cols<<: 4'), ('cols: 4', 'cols: 3'), ('rows: 4', 'rows: 1073741825'),
    ('!!opencv-matrix', '!!opencv-nd-matrix'), ('-8', '&a [*a]'), ('data: [', 'data: {'),
    ('data: [', 'data: 3 # ['), ('-8', '0x' + 'f' * 5000)])
def test_a_matrix_of_opencv_that_is_damaged_is_rejected(tmp_path, damage):
    sound = ('%YAML:1.0\n---\nQ: !!opencv-matrix\n   rows: 4\n   cols: 4\n   dt: d\n'
             '   data: [ 1., 0, 0, -8, 0, 1, 0, -6, 0, 0, 0, 1.e+02, 0, 0, 8., 0 ]\n')
    path = tmp_path / 'stereo.yml'
    path.write_text(sound)
    assert Calibration.from_file(path) == Calibration(100.0, 0.125, 8.0, 8.0, 6.0)
    path.write_text(sound.replace(*damage) + '# !!opencv-matrix')
    for _ in range(3):              # OpenCV's own parser damages the memory of the process
        with pytest.raises(ValueError, match=r'stereo\.yml'):
            Calibration.from_file(path)


def test_camera_info_that_makes_no_pair_is_rejected_by_name(tmp_path):
    write(tmp_path, {f'{name}.yaml': camera_info(LEFT_P) for name in ('left', 'front')})
    for name, words in (('left', r'left\.yaml is of one camera: put right\.yaml'),
                        ('front', r'front\.yaml is of one camera.*left nor right')):
        with pytest.raises(ValueError, match=words):
            Calibration.from_file(tmp_path / f'{name}.yaml')
    for right, words in (
            (camera_info(RIGHT_P, image_width=320), 'different sizes: 640 x 400 and 320 x 400'),
            (camera_info(LEFT_P), 'baseline is'),
            (camera_info(RIGHT_P, projection_matrix={'data': 'many'}), r'right\.yaml.*projection'),
            (camera_info(RIGHT_P, projection_matrix={'data': [1, 2]}), r'right\.yaml.*projection'),
            (camera_info(RIGHT_P, projection_matrix={'data': None}), r'right\.yaml.*projection')):
        (tmp_path / 'right.yaml').write_text(right)
        with pytest.raises(ValueError, match=words):
            Calibration.from_file(tmp_path / 'left.yaml')


@pytest.mark.parametrize('name', ['stereo.yaml', 'stereo.yml', 'extrinsics.yml', 'left.yml'])
def test_the_calibration_of_a_pair_or_a_sequence_lies_beside_it(tmp_path, name):
    one = {**SIZE, 'P1': LEFT_P, 'P2': RIGHT_P}
    files = {name: yaml.safe_dump(one)} if name != 'left.yml' else {
        f'{side}.yml': camera_info(p) for side, p in SIDES.items()}
    save_pair(tmp_path / 'hall')
    (tmp_path / 'hall' / 'left.yaml').write_text(camera_info(LEFT_P))
    assert open_dataset(tmp_path / 'hall')[0].calibration is None       # of one camera alone
    for side in SIDES:
        save(tmp_path / 'drive' / side / '1.png')
    for folder in ('hall', 'drive'):
        write(tmp_path / folder, files)
        assert open_dataset(tmp_path / folder)[0].calibration == CALIBRATION


def test_euroc_is_read_where_its_cameras_are_parallel_and_rejected_where_they_are_raw(tmp_path):
    for name, distortion in (('simulated', 0.0), ('MH_01_easy', -0.28)):
        write(tmp_path / name / 'mav0', euroc(distortion))
        for camera in ('cam0', 'cam1'):
            save(tmp_path / name / 'mav0' / camera / 'data' / '1403715273262142976.png')
    pair, = open_dataset(tmp_path / 'simulated')
    assert pair.stamp_ns == 1403715273262142976
    assert pair.calibration.baseline_m == pytest.approx(0.12)
    with pytest.raises(ValueError, match=r'sensor\.yaml of EuRoC that describes raw cameras'):
        open_dataset(tmp_path / 'MH_01_easy')[0]
    (tmp_path / 'MH_01_easy' / 'mav0' / 'cam1' / 'sensor.yaml').unlink()
    with pytest.raises(ValueError, match=r'cam1/sensor\.yaml'):
        Calibration.from_file(tmp_path / 'MH_01_easy' / 'mav0' / 'cam0' / 'sensor.yaml')


def test_the_folder_of_the_image_tells_the_cameras_of_kitti_or_a_warning_does(tmp_path, caplog):
    path = tmp_path / 'calib_cam_to_cam.txt'
    path.write_text(''.join(f'P_rect_0{camera}: 700 0 600 {700 * x} 0 700 180 0 0 0 1 0\n'
                            for camera, x in enumerate((0, -0.5, 0.25, -0.35))))
    for image, baseline in (('image_00/data/0.png', 0.5), ('image_02/data/0.png', 0.6),
                            ('image_0/0.png', 0.5), ('image_2/0.png', 0.6),
                            ('colored_0/0.png', 0.6)):
        assert Calibration.from_file(path, tmp_path / image).baseline_m == pytest.approx(baseline)
    assert 'four cameras' not in caplog.text
    assert Calibration.from_file(path, tmp_path / 'left.png').baseline_m == pytest.approx(0.5)
    assert 'four cameras: 0 and 1 (grey) were taken, with a baseline of 0.5' in caplog.text
    caplog.clear()
    path.write_text(''.join(path.read_text().splitlines(True)[2:]))     # one pair of cameras
    assert Calibration.from_file(path).baseline_m == pytest.approx(0.6)
    assert 'four cameras' not in caplog.text


@pytest.mark.parametrize('name', ['calib.txt', 'P_left.txt', 'left.yaml', 'stereo.yaml'])
def test_a_byte_order_mark_changes_nothing(tmp_path, name):
    texts = {'calib.txt': MIDDLEBURY, 'P_left.txt': LINES[0], 'P_right.txt': LINES[1],
             'left.yaml': camera_info(LEFT_P), 'right.yaml': camera_info(RIGHT_P),
             'stereo.yaml': yaml.safe_dump({'P1': rows(LEFT_P), 'P2': rows(RIGHT_P)})}
    for file, text in texts.items():
        (tmp_path / file).write_text(text, 'utf-8-sig')
    found = Calibration.from_file(tmp_path / name)
    assert found.baseline_m == pytest.approx(0.12)


def test_a_byte_order_mark_before_ndisp_is_none(tmp_path):
    save(tmp_path / 'im0.png', np.zeros((4, 6), np.uint8))
    save(tmp_path / 'im1.png', np.zeros((4, 6), np.uint8))
    (tmp_path / 'calib.txt').write_text(f'ndisp=37\n{MIDDLEBURY}', 'utf-8-sig')
    assert open_dataset(tmp_path)._entries[0].disparities == 37
