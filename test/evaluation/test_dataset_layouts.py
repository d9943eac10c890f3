"""Public data sets in their native names, scales and folders, on files as they come unpacked."""

import json

import numpy as np
import pytest

from stereo_bp_ros.evaluation.datasets import open_dataset
from test.evaluation.layouts import SIZE, build, save

F, SHIFTS = 721.5377, ((0.0, 0.0), (-387.5744, 0.0), (44.85728, 0.2163791), (-339.5242, 2.199936))
#: Baselines of KITTI's two pairs of cameras.
GREY, COLOUR = 387.5744 / F, (44.85728 + 339.5242) / F


def kitti(name='P{}', cameras=range(4)):
    """A line of each camera: pixels x metres in P[3] and P[7]."""
    return ''.join(f'{name.format(n)}: {F} 0 609.6 {SHIFTS[n][0]} 0 {F} 172.9 {SHIFTS[n][1]} '
                   '0 0 1 0\n' for n in cameras)


def image_pairs(folders, names, suffix='.png'):
    """An image of each name in each folder, of grey level 1 in the first folder, 2 ..."""
    return {f'{folder}/{name}{suffix}': level for level, folder in enumerate(folders, 1)
            for name in names}


def array(value, dtype=np.uint8, **parts):
    """An image of one value but for some parts: r0 is row 0, c1 column 1, r1c0 a pixel."""
    image = np.full(SIZE, value, dtype)
    for part, other in parts.items():
        row, _, column = part.lstrip('r').partition('c')
        image[int(row) if row else slice(None), int(column) if column else slice(None)] = other
    return image


def middlebury(focal, centre, baseline, width, height, disparities):
    return ''.join(f'cam{n}=[{focal} 0 {centre}; 0 {focal} 9; 0 0 1]\n' for n in (0, 1)) + (
        f'doffs=0\nbaseline={baseline}\nwidth={width}\nheight={height}\nndisp={disparities}\n')


DRIVE = '2018-10-19-09-30-39'
FRAME = f'{DRIVE}_2018-10-19-09-31-36-438'
KINDS = ('left-image', 'right-image', 'disparity-map')


def driving_stereo(folders, truth, suffix='.jpg'):
    left, right, disparity = folders
    return {**image_pairs((left, right), [FRAME], suffix), f'{disparity}/{FRAME}.png': truth}


def driving_stereo_calibration(focal):
    return (f'S_101: 1762 800\nK_101: {focal} 0 881 0 {focal} 400 0 0 1\nT_101: 0 0 0\n'
            f'P_rect_101: {focal} 0 881 0 0 {focal} 400 0 0 0 1 0\nT_103: -0.5446 0.001 0.002\n'
            f'P_rect_103: {focal} 0 881 {-0.5446 * focal} 0 {focal} 400 0 0 0 1 0\n')


VKITTI = 'frame cameraID K[0,0] K[1,1] K[0,2] K[1,2]\n' + ''.join(
    f'{frame} {camera} 725.0087 725.0087 620.5 187\n' for frame in (0, 1) for camera in (0, 1))
CENTIMETRES = array(1000, np.uint16, r0=65535, r1c0=0)


def virtual_kitti(folder):
    return {**image_pairs([f'{folder}frames/rgb/Camera_{n}' for n in (0, 1)],
                          ['rgb_00000', 'rgb_00001'], '.jpg'),
            **{f'{folder}frames/depth/Camera_0/depth_0000{n}.png': CENTIMETRES for n in (0, 1)},
            f'{folder}intrinsic.txt': VKITTI}


def scene_flow(scenes, passes=('frames_cleanpass',), root=''):
    tree = {}
    for number, scene in enumerate(scenes):
        for one in passes:
            tree |= image_pairs([f'{root}{one}/{scene}/{side}' for side in ('left', 'right')],
                                ['0006'])
        tree[f'{root}disparity/{scene}/left/0006.pfm'] = 10 + number
        tree[f'{root}disparity/{scene}/right/0006.pfm'] = 99
    return tree


SINTEL = np.zeros((*SIZE, 3), np.uint8)
SINTEL[:] = (5, 3 * 64 + 3, 1)         # OpenCV's order: blue, green, red
FALLING_THINGS = json.dumps({'camera_settings': [{
    'name': 'left', 'intrinsic_settings': {'fx': 768.16, 'fy': 768.16, 'cx': 480, 'cy': 270},
    'captured_image_size': {'width': 960, 'height': 540}}]})
ARGOVERSE = ('rectified_stereo_images_v1.1/train/log/stereo_front_{0}_rect/'
             'stereo_front_{0}_rect_9.jpg')
ODOMETRY = {'dataset/sequences/00/calib.txt': kitti() + 'Tr: 1 0 0 0 0 1 0 0 0 0 1 0\n',
            'dataset/sequences/00/times.txt': '0.000000e+00\n1.037360e-01\n'}
RAW = '2011_09_26/2011_09_26_drive_0001_sync'
RAW_CALIBRATION = ('calib_time: 09-Jan-2012 13:57:47\nS_rect_00: 1.242000e+03 3.750000e+02\n'
                   + kitti('P_rect_0{}'))
TIMES = '2011-09-26 13:02:25.964389445\n2011-09-26 13:02:26.067768622\n'
STAMPS = 1317042145964389445, 1317042146067768622
NUMBERS = '0000000000', '0000000001'


def raw(cameras):
    return {**image_pairs([f'{RAW}/image_{n}/data' for n in cameras], NUMBERS),
            f'{RAW}/image_{cameras[0]}/timestamps.txt': TIMES,
            '2011_09_26/calib_cam_to_cam.txt': RAW_CALIBRATION}


#: By layout: files, what each pair has by its name, other folders to begin at, size of images.
LAYOUTS = {
    'Middlebury 2001': (
        {**{f'set/im{n}.ppm': n for n in range(9)}, 'set/disp2.pgm': 100, 'set/disp6.pgm': 50},
        {'set': {'left': 2, 'right': 6, 'truth': 12.5}}, ['set'], (383, 434)),
    **{f'Middlebury 2003, {size}': (
        {'set/im2.png': 2, 'set/im6.png': 6, 'set/disp2.png': 100},
        {'set': {'left': 2, 'right': 6, 'truth': 100 / scale}}, [], size)
        for size, scale in (((375, 450), 4), ((750, 900), 2), ((1500, 1800), 1))},
    'Tsukuba': (
        {**{f'set/scene1.row3.col{n}.ppm': n for n in range(1, 6)},
         'set/truedisp.row3.col3.pgm': 224},
        {'set': {'left': 3, 'right': 4, 'truth': 14}}, [], (288, 384)),
    # The views are cropped by dmin: 3740 px, 160 mm.
    **{f'Middlebury 2006, {rows} rows': (
        {**{f'Art/view{n}.png': n for n in range(7)}, 'Art/disp1.png': 120, 'Art/disp5.png': 60,
         'Art/dmin.txt': '200\n'},
        {'Art': {'left': 1, 'right': 5, 'truth': 120 / scale, 'metres': 3740 * 0.160 / 320}},
        [], (rows, 30)) for rows, scale in ((1110, 1), (555, 2), (370, 3))},
    'ETH3D': (
        {'two_view_training/hall/im0.png': 1, 'two_view_training/hall/im1.png': 2,
         'two_view_training/hall/disp0GT.pfm': array(7.5, np.float32, r0=np.inf),
         'two_view_training/hall/mask0nocc.png': array(255, c1=128, r0=0),
         'two_view_training/hall/calib.txt': middlebury(541.8, 553.9, 59.9085, 941, 490, 64)},
        {'hall': {'truth': 7.5, 'known': 18, 'occluded': 3, 'disparities': 64,
                  'baseline': 0.0599085}}, ['two_view_training/hall']),
    'Middlebury 2021': (
        {'artroom1/im0.png': 1, 'artroom1/im1.png': 2, 'artroom1/ambient/L0/im0e0.png': 7,
         'artroom1/ambient/L0/im1e0.png': 7, 'artroom1/disp0.pfm': 9, 'artroom1/disp1.pfm': 8,
         'artroom1/calib.txt': middlebury(1733.74, 792.27, 536.62, 1920, 1080, 170)},
        {'artroom1': {'left': 1, 'truth': 9, 'occluded': None, 'disparities': 170,
                      'baseline': 0.53662}}, []),
    'KITTI 2012': (
        {**image_pairs(['training/image_0', 'training/image_1'],
                       ['000003_10', '000004_10', '000005_10']),
         'training/disp_occ/000003_10.png': array(2560, np.uint16, c0=0),
         'training/disp_noc/000003_10.png': array(2560, np.uint16, c0=0, r2=0),
         'training/disp_noc/000004_10.png': array(2560, np.uint16, c0=0, r2=0)},
        {'000003_10': {'truth': 10, 'known': 20, 'occluded': 5},
         '000004_10': {'truth': 10, 'known': 15, 'occluded': None},
         '000005_10': {'truth': None, 'occluded': None}}, ['training']),
    'KITTI 2015': (
        {**image_pairs(['training/image_2', 'training/image_3'], ['000007_10', '000007_11']),
         'training/disp_occ_0/000007_10.png': 2304, 'training/obj_map/000007_10.png': 3,
         'training/calib/000007.txt': kitti()},
        {'000007_10': {'truth': 9, 'vehicles': 24, 'baseline': COLOUR},
         '000007_11': {'truth': None, 'vehicles': None, 'baseline': COLOUR}}, ['training']),
    # The pair with a truth is taken where both are there.
    'KITTI of four cameras': (
        {**image_pairs([f'image_{n}' for n in range(4)], ['000000_10']),
         'calib_cam_to_cam/000000.txt': RAW_CALIBRATION, 'disp_occ_0/000000_10.png': 2304},
        {'000000_10': {'left': 3, 'right': 4, 'truth': 9, 'baseline': COLOUR}}, []),
    'KITTI of four cameras without a truth': (
        {**image_pairs([f'image_{n}' for n in range(4)], ['000000_10']),
         'calib_cam_to_cam/000000.txt': RAW_CALIBRATION},
        {'000000_10': {'left': 1, 'right': 2, 'baseline': GREY}}, []),
    'KITTI odometry': (
        {**image_pairs([f'dataset/sequences/00/image_{n}' for n in (0, 1)], ['000000', '000001']),
         **ODOMETRY},
        {'000000': {'baseline': GREY}, '000001': {'baseline': GREY, 'after': 103736000}},
        ['dataset', 'dataset/sequences', 'dataset/sequences/00']),
    'KITTI odometry in colour': (
        {**image_pairs([f'dataset/sequences/00/image_{n}' for n in (2, 3)], ['000000', '000001']),
         **ODOMETRY}, {'000000': {'baseline': COLOUR}, '000001': {'baseline': COLOUR}}, []),
    **{f'KITTI raw, {baseline:.4f} m': (
        raw(cameras), {name: {'baseline': baseline, 'stamp': stamp}
                       for name, stamp in zip(NUMBERS, STAMPS, strict=True)},
        [RAW, '2011_09_26']) for cameras, baseline in ((('00', '01'), GREY),
                                                       (('02', '03'), COLOUR))},
    'KITTI-360': (
        {**image_pairs([f'data_2d_raw/2013_05_28_drive_0000_sync/image_{n}/data_rect'
                        for n in ('00', '01')], NUMBERS[:1]),
         'calibration/perspective.txt': (
             'S_rect_00: 1408.000000 376.000000\n' + kitti('P_rect_0{}', (0, 1)))},
        {'0000000000': {'baseline': GREY}}, []),
    'a weather of DrivingStereo': (
        {**driving_stereo([f'sunny/{kind}-half-size' for kind in KINDS], 5120),
         **driving_stereo([f'sunny/{kind}-full-size' for kind in KINDS], 5120, '.png'),
         f'half-image-calib/{DRIVE}.txt': driving_stereo_calibration(1003.55),
         f'full-image-calib/{DRIVE}.txt': driving_stereo_calibration(2007.1)},
        {f'half-size/{FRAME}': {'truth': 20, 'baseline': 0.5446, 'focal': 1003.55},
         f'full-size/{FRAME}': {'truth': 40, 'baseline': 0.5446, 'focal': 2007.1}}, ['sunny']),
    'the training part of DrivingStereo': (
        driving_stereo([f'train-{kind}/{DRIVE}' for kind in KINDS], 2560),
        {FRAME: {'truth': 10, 'baseline': None}}, []),
    'the test part of DrivingStereo': (
        {**driving_stereo([f'test-{kind}/{kind}-half-size' for kind in KINDS], 2560),
         **driving_stereo([f'test-{kind}/{kind}-full-size' for kind in KINDS], 2560)},
        {f'half-size/{FRAME}': {'truth': 10}, f'full-size/{FRAME}': {'truth': 20}}, []),
    'Virtual KITTI 2': (
        {**virtual_kitti('Scene01/clone/'), **virtual_kitti('Scene01/fog/')},
        {f'Scene01/{kind}/rgb_0000{n}': {
            'truth': 725.0087 * 0.532725 / 10, 'known': 17, 'sky': 6, 'baseline': 0.532725}
         for kind in ('clone', 'fog') for n in (0, 1)}, ['Scene01', 'Scene01/clone']),
    'FlyingThings3D': (
        scene_flow(['TEST/C/0149', 'TRAIN/A/0000', 'TRAIN/B/0001'], ('frames_finalpass',)),
        {'TEST/C/0149/0006': {'left': 1, 'right': 2, 'truth': 10},
         'TRAIN/A/0000/0006': {'truth': 11}, 'TRAIN/B/0001/0006': {'truth': 12}},
        ['frames_finalpass', 'frames_finalpass/TRAIN']),
    'Driving': (
        scene_flow(['15mm/scene_backwards/fast', '35mm/scene_forwards/slow'], root='set/'),
        {'15mm/scene_backwards/fast/0006': {'truth': 10},
         '35mm/scene_forwards/slow/0006': {'truth': 11}}, ['set']),
    'both passes of SceneFlow': (
        scene_flow(['A'], ('frames_cleanpass', 'frames_finalpass')),
        {'frames_cleanpass/A/0006': {'truth': 10}, 'frames_finalpass/A/0006': {'truth': 10}}, []),
    'the subset of FlyingThings3D': (
        {**image_pairs(['train/image_clean/left', 'train/image_clean/right'], ['0000000']),
         'train/disparity/left/0000000.pfm': -12}, {'0000000': {'truth': 12}}, ['train']),
    'samples of SceneFlow': (
        {**image_pairs(['RGB_cleanpass/left', 'RGB_cleanpass/right'], ['0006']),
         'disparity/0006.pfm': 5}, {'0006': {'truth': 5}}, []),
    'Sintel': (
        {**image_pairs([f'training/clean_{side}/alley_1' for side in ('left', 'right')], ['f_1']),
         **image_pairs([f'training/final_{side}/alley_1' for side in ('left', 'right')], ['f_1']),
         'training/disparities/alley_1/f_1.png': SINTEL,
         'training/occlusions/alley_1/f_1.png': array(0, c1=255),
         'training/outofframe/alley_1/f_1.png': array(0, c0=255)},
        {f'{kind}/alley_1/f_1': {'truth': 7 + 3 / 64 + 5 / 16384, 'occluded': 8}
         for kind in ('clean', 'final')}, []),
    'TartanAir': (
        {**{f'a/Easy/P000/image_{side}/000000_{side}.png': 1 for side in ('left', 'right')},
         'a/Easy/P000/depth_left/000000_left_depth.npy': array(
             10, np.float32, r0=np.inf, r1c0=0, r1c1=np.nan)},
        {'a/Easy/P000/000000': {'truth': 8, 'known': 16, 'baseline': 0.25}}, []),
    'Falling Things': (
        {**{f'kitchen_0/000000.{side}.{kind}': level for side in ('left', 'right')
            for kind, level in (('jpg', 9), ('depth.png', array(10000, np.uint16, r0=65535)),
                                ('seg.png', 3), ('json', '{}'))},
         'kitchen_0/_camera_settings.json': FALLING_THINGS},
        {'kitchen_0/000000': {'truth': 768.16 * 0.06, 'known': 18, 'focal': 768.16}}, []),
    'InStereo2K': (
        {**{f'train/part1/000000/{side}.png': 3 for side in ('left', 'right')},
         **{f'train/part1/000000/{side}_disp.png': 1250 for side in ('left', 'right')}},
        {'train/part1/000000': {'truth': 12.5}}, []),
    'CREStereo': (
        {f'tree/{name}_{side}.{kind}': level for name in ('0a', '1b')
         for side, level in (('left', 1), ('right', 9))
         for kind, level in (('jpg', level), ('disp.png', 400))},
        {'tree/0a': {'right': 9, 'truth': 12.5}, 'tree/1b': {'left': 1, 'truth': 12.5}}, []),
    'Argoverse': (
        {ARGOVERSE.format('left'): 1, ARGOVERSE.format('right'): 2,
         ('disparity_maps_v1.1/train/log/stereo_front_left_rect_disparity/'
          'stereo_front_left_rect_disparity_9.png'): 2560},
        {'log/9': {'stamp': 9, 'truth': 10}},
        ['rectified_stereo_images_v1.1/train/log']),
    'a plain pair': ({'hall/left.png': 1, 'hall/right.png': 2, 'hall/disparity.pfm': 3.5},
                     {'hall': {'left': 1, 'right': 2, 'truth': 3.5, 'stamp': None}}, ['hall']),
    'a plain pair with 16 bits': (
        {'hall/left.png': 1, 'hall/right.png': 2, 'hall/disparity.png': 896},
        {'hall': {'truth': 3.5}}, []),
    **{f'folders {left}, {right}': (
        image_pairs([left, right], ['17', '9']),
        {'9': {'left': 1, 'right': 2, 'stamp': 9 * 10**8},
         '17': {'left': 1, 'right': 2, 'after': 8 * 10**8}},
        []) for left, right in (
            ('left', 'right'), ('cam0/data', 'cam1/data'), ('LEFT_RGB', 'RIGHT_RGB'), ('l', 'r'),
            ('camera_1', 'camera_2'), ('rect_left_8bit', 'rect_right_8bit'))},
    'a sequence whose truth lies beside it': (
        {**image_pairs(['left', 'right'], '12'), 'disparity/1.pfm': 2.5, 'disparity/2.png': 896},
        {'1': {'truth': 2.5}, '2': {'truth': 3.5}}, []),
    'names that differ by left and right': (
        {'left/street_left.jpg': 1, 'left/yard_left.jpg': 1, 'right/street_right.jpg': 2,
         'right/yard_right.jpg': 2},
        {'street_left': {'left': 1, 'right': 2}, 'yard_left': {'left': 1, 'right': 2}}, []),
    **{f'side by side, {form}': (
        {form.format(name=name, side=side) + '.png': level for name in ('street', 'yard')
         for side, level in (('left', 1), ('right', 2))},
        {'street': {'left': 1, 'right': 2}, 'yard': {'left': 1, 'right': 2}}, [])
        for form in ('{name}_{side}', '{side}_{name}')}}


def facts(pair, first):
    """What a pair has, each in a number; None where there is none of it."""
    known = None if pair.truth is None else pair.truth[np.isfinite(pair.truth)]
    calibration = pair.calibration
    found = {
        'left': pair.left.max(), 'right': pair.right.max(), 'stamp': pair.stamp_ns,
        'disparities': pair.disparities,
        'after': pair.stamp_ns and pair.stamp_ns - first.stamp_ns,
        'truth': known if known is None else known.max(),
        'known': known if known is None else known.size,
        'baseline': calibration and calibration.baseline_m,
        'focal': calibration and calibration.focal_px,
        'metres': calibration and known is not None and calibration.focal_px
        * calibration.baseline_m / (known.max() - calibration.shift)}
    for name in ('occluded', 'vehicles', 'sky'):
        mask = getattr(pair, name)
        found[name] = mask if mask is None else np.count_nonzero(mask)
    return found


@pytest.mark.parametrize('layout', LAYOUTS)
def test_a_data_set_is_read_as_it_comes_unpacked(tmp_path, layout):
    tree, expected, starts, *size = LAYOUTS[layout]
    build(tmp_path, tree, *size)
    dataset = open_dataset(tmp_path)
    assert len(dataset) == len(expected)
    for start in ('', *starts):
        dataset = open_dataset(tmp_path / start)
        assert not dataset.warnings
        pairs = list(dataset)
        assert pairs
        for pair in pairs:
            assert pair.truth is None or pair.truth.dtype == np.float32
            wanted, *_ = (value for name, value in expected.items()
                       if name.endswith(pair.name) or pair.name.endswith(name))
            found = facts(pair, pairs[0])
            for key, value in wanted.items():
                assert found[key] == (pytest.approx(value, rel=1e-5) if isinstance(value, float)
                                      else value), key


@pytest.mark.parametrize(('names', 'stamps', 'are_numbers'), [
    (('000000', '000001', '000003'), (0, 10**8, 3 * 10**8), True),
    (('1000000000', '1100000000'), (10**9, 11 * 10**8), False),
    (('1403636579763555584',), (1403636579763555584,), False),
    (('1403636579763555', '1403636579813555'), (None, None), False),    # in microseconds
    (('7', 'street'), (7 * 10**8, None), True),
    (('1', '9' * 30), (None, None), False)])
def test_numbers_are_stamps_where_they_are_far_apart_and_else_frames(
        tmp_path, names, stamps, are_numbers):
    build(tmp_path, image_pairs(['left', 'right'], names))
    pairs = list(open_dataset(tmp_path))
    assert tuple(pair.name for pair in pairs) == names
    assert tuple(pair.stamp_ns for pair in pairs) == stamps
    assert pairs[0].is_numbered is are_numbers


def changed(layout, **files):
    """The files of a layout, of which one, named by its end, is another; None = is missing."""
    tree = dict(LAYOUTS[layout][0])
    (end, content), = files.items()
    path, = (path for path in tree if path.endswith(end))
    tree[path] = content
    return {path: value for path, value in tree.items() if value is not None}


DEPTH = '000000_left_depth.npy'
SETTINGS = '_camera_settings.json has no intrinsic_settings'


@pytest.mark.parametrize(('tree', 'words'), [
    ({'im2.png': 1, 'im6.png': 2, 'disp2.png': 9}, r'disp2\.png has 4 rows.*sets\.yaml'),
    ({'view1.png': 1, 'view5.png': 2, 'disp1.png': 9}, r'disp1\.png has 4 rows.*sets\.yaml'),
    ({'view1.png': np.zeros((370, 6), np.uint8), 'view5.png': np.zeros((370, 6), np.uint8),
      'dmin.txt': 'many'}, r"dmin\.txt is 'many'"),
    (changed('ETH3D', **{'mask0nocc.png': np.zeros((3, 6), np.uint8)}),
     r'mask0nocc\.png is 6 x 3'),
    ({'left-image-half-size/b.jpg': 1, 'right-image-half-size/a.jpg': 1},
     r'left-image-half-size/b\.jpg has no partner'),
    (changed('Sintel', **{'disparities/alley_1/f_1.png': 0}), r'f_1\.png is grey'),
    (changed('CREStereo', **{'1b_right.jpg': None}), r'1b_left\.jpg has no partner'),
    (changed('InStereo2K', **{'left_disp.png': 125}), r'left_disp\.png has 8 bits'),
    (changed('Falling Things', **{'left.depth.png': 7}), 'has 8 bits'),
    ({**virtual_kitti(''), 'frames/depth/Camera_0/depth_00000.png': 1},
     r'depth_00000\.png has 8 bits'),
    ({**virtual_kitti(''), 'frames/classSegmentation/Camera_0/classgt_00000.png': 0},
     r'classgt_00000\.png are grey'),
    *((LAYOUTS['Falling Things'][0] | {
        'kitchen_0/_camera_settings.json': text}, SETTINGS) for text in (
            '', '[]', '{"camera_settings": [{"intrinsic_settings": 3}]}', '[' * 100000,
            '{"camera_settings": []}')),
    *((changed('TartanAir', **{DEPTH: depth}), r'000000_left_depth\.npy') for depth in (
        np.ones(3), np.ones(SIZE, int), np.array([{}], object))),
    *(({**image_pairs(['image_0', 'image_1'], ['000000', '000001']), 'times.txt': text},
       r'times\.txt') for text in ('now\n', '1\nnan\n', '-1\n', '1e300\n', '2011-99-26 13:02\n')),
    ({'left/1.png': 1, 'left/2.png': 1, 'right/1.png': 2}, r'left/2\.png has no partner'),
    ({'street_left.png': 1, 'street_right.png': 2, 'icon.png': 3}, 'no stereo pairs'),
    ({f'{name}/1.png': 1 for name in ('left_raw', 'right_raw', 'left_rect', 'right_rect')},
     'left_raw with right_raw, left_rect with right_rect'),
    ({'left.png': 1}, 'image_0/ with image_1/')])
def test_a_damaged_data_set_is_rejected_by_its_file(tmp_path, tree, words):
    build(tmp_path, tree)
    with pytest.raises(ValueError, match=words):
        list(open_dataset(tmp_path))


@pytest.mark.parametrize('content', [b'', b'damaged', b'\x93NUMPY\x01\x00v\x00{'])
def test_a_depth_of_tartan_air_that_is_no_array_is_rejected_by_name(tmp_path, content):
    build(tmp_path, LAYOUTS['TartanAir'][0])
    (tmp_path / 'a/Easy/P000/depth_left' / DEPTH).write_bytes(content)
    with pytest.raises(ValueError, match=r'000000_left_depth\.npy'):
        open_dataset(tmp_path)[0]


def test_virtual_kitti_tells_vehicles_by_their_colours_and_needs_its_intrinsics(tmp_path):
    build(tmp_path, virtual_kitti(''))
    colours = {'Sky': (90, 200, 255), 'Truck': (160, 60, 60), 'Car': (255, 127, 80),
               'Van': (0, 139, 139), 'Road': (100, 60, 100), 'Undefined': (0, 0, 0)}
    save(tmp_path / 'frames/classSegmentation/Camera_0/classgt_00001.png',
         np.array([list(colours.values())] * 4, np.uint8)[:, :, ::-1])
    first, second = open_dataset(tmp_path)
    assert (first.vehicles, first.classes) == (None, {})
    assert second.classes.keys() == {'truck', 'car', 'van', 'road'}
    for column, name in enumerate(colours):
        assert (second.vehicles[:, column] == (name in ('Truck', 'Car', 'Van'))).all()
        for known, mask in second.classes.items():
            assert (mask[:, column] == (known == name.lower())).all()
    (tmp_path / 'intrinsic.txt').unlink()
    assert open_dataset(tmp_path)[0].truth is None


def test_the_classes_of_kitti_are_numbers_of_cityscapes(tmp_path):
    numbers = np.array([[0, 3, 4, 7, 17, 23], [20, 21, 26, 33, 34, 255]], np.uint8)
    build(tmp_path, {**image_pairs(['image_2', 'image_3'], ['000007_10', '000007_11']),
                     'semantic/000007_10.png': np.repeat(numbers, 2, axis=0)})
    pair, later = open_dataset(tmp_path)
    places = {name: np.argwhere(mask[::2]).tolist() for name, mask in pair.classes.items()}
    assert places == {'static': [[0, 2]], 'road': [[0, 3]], 'pole': [[0, 4]],
                      'traffic_sign': [[1, 0]], 'vegetation': [[1, 1]], 'car': [[1, 2]],
                      'bicycle': [[1, 3]]}
    np.testing.assert_array_equal(pair.sky[::2], numbers == 23)
    assert (later.classes, later.sky) == ({}, None)


def test_colour_images_of_2012_have_the_truth_of_the_grey_camera_and_a_warning(tmp_path):
    build(tmp_path, {**image_pairs(['training/colored_0', 'training/colored_1'], ['000000_10']),
                     'training/calib/000000.txt': kitti(),
                     'training/disp_occ/000000_10.png': 2304})
    dataset = open_dataset(tmp_path)
    assert dataset[0].truth.max() == 9
    assert dataset[0].calibration.baseline_m == pytest.approx(COLOUR)
    assert 'that of the grey left camera' in dataset.warnings[0]


def test_a_truth_of_instereo2k_alone_has_a_scale_that_nobody_knows(tmp_path):
    build(tmp_path, {'1/left.png': 1, '1/right.png': 2, '1/left_disp.png': 1250})
    dataset = open_dataset(tmp_path)
    assert dataset[0].truth is None
    assert 'left_disp.png' in dataset.warnings[0]
