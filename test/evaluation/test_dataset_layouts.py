"""Public data sets in their native names, scales and folders, on files as they come unpacked."""

import numpy as np
import pytest

from stereo_bp_ros.sources.bag_topics import Globs
from stereo_bp_ros.sources.datasets.dataset import open_dataset
from test.evaluation.layouts import SIZE, build

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


def scene_flow(scenes, passes=('frames_cleanpass',), root=''):
    tree = {}
    for number, scene in enumerate(scenes):
        for one in passes:
            tree |= image_pairs([f'{root}{one}/{scene}/{side}' for side in ('left', 'right')],
                                ['0006'])
        tree[f'{root}disparity/{scene}/left/0006.pfm'] = 10 + number
        tree[f'{root}disparity/{scene}/right/0006.pfm'] = 99
    return tree


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
    'a weather of DrivingStereo': (
        {**driving_stereo([f'sunny/{kind}-half-size' for kind in KINDS], 5120),
         **driving_stereo([f'sunny/{kind}-full-size' for kind in KINDS], 5120, '.png'),
         f'half-image-calib/{DRIVE}.txt': driving_stereo_calibration(1003.55),
         f'full-image-calib/{DRIVE}.txt': driving_stereo_calibration(2007.1)},
        {FRAME: {'truth': 20, 'baseline': 0.5446, 'focal': 1003.55}}, ['sunny']),
    'a weather of DrivingStereo at full size': (
        {**driving_stereo([f'sunny/{kind}-full-size' for kind in KINDS], 5120, '.png'),
         f'full-image-calib/{DRIVE}.txt': driving_stereo_calibration(2007.1)},
        {FRAME: {'truth': 40, 'baseline': 0.5446, 'focal': 2007.1}}, ['sunny']),
    'the training part of DrivingStereo': (
        driving_stereo([f'train-{kind}/{DRIVE}' for kind in KINDS], 2560),
        {FRAME: {'truth': 10, 'baseline': None}}, []),
    'the test part of DrivingStereo': (
        {**driving_stereo([f'test-{kind}/{kind}-half-size' for kind in KINDS], 2560),
         **driving_stereo([f'test-{kind}/{kind}-full-size' for kind in KINDS], 2560)},
        {FRAME: {'truth': 10}}, []),
    'FlyingThings3D': (
        scene_flow(['TEST/C/0149', 'TRAIN/A/0000', 'TRAIN/B/0001'], ('frames_finalpass',)),
        {'TEST/C/0149/0006': {'left': 1, 'right': 2, 'truth': 10},
         'TRAIN/A/0000/0006': {'truth': 11}, 'TRAIN/B/0001/0006': {'truth': 12}},
        ['frames_finalpass', 'frames_finalpass/TRAIN']),
    'Driving': (
        scene_flow(['15mm/scene_backwards/fast', '35mm/scene_forwards/slow'], root='set/'),
        {'15mm/scene_backwards/fast/0006': {'truth': 10},
         '35mm/scene_forwards/slow/0006': {'truth': 11}}, ['set']),
    'of two passes of SceneFlow the clean one': (
        scene_flow(['A'], ('frames_cleanpass', 'frames_finalpass')),
        {'A/0006': {'truth': 10}}, ['frames_finalpass']),
    'the subset of FlyingThings3D': (
        {**image_pairs(['train/image_clean/left', 'train/image_clean/right'], ['0000000']),
         'train/disparity/left/0000000.pfm': -12}, {'0000000': {'truth': 12}}, ['train']),
    'samples of SceneFlow': (
        {**image_pairs(['RGB_cleanpass/left', 'RGB_cleanpass/right'], ['0006']),
         'disparity/0006.pfm': 5}, {'0006': {'truth': 5}}, []),
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
            ('left', 'right'), ('cam0/data', 'cam1/data'))},
    'a sequence whose truth lies beside it': (
        {**image_pairs(['left', 'right'], '12'), 'disparity/1.pfm': 2.5, 'disparity/2.png': 896},
        {'1': {'truth': 2.5}, '2': {'truth': 3.5}}, []),
    'pairs side by side': (
        {f'{name}_{side}.png': level for name in ('street', 'yard')
         for side, level in (('left', 1), ('right', 2))} | {'icon.png': 3},
        {'street': {'left': 1, 'right': 2}, 'yard': {'left': 1, 'right': 2}}, [])}


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
    # In microseconds, and in nanoseconds since a computer was started.
    (('1403636579763555', '1403636579813555'), (1403636579763555000, 1403636579813555000), False),
    (('1403636579763555', '1403636679763555'), (1403636579763555, 1403636679763555), False),
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


@pytest.mark.parametrize(('tree', 'words'), [
    ({'im2.png': 1, 'im6.png': 2, 'disp2.png': 9}, r'disp2\.png has 4 rows.*sets\.yaml'),
    ({'view1.png': 1, 'view5.png': 2, 'disp1.png': 9}, r'disp1\.png has 4 rows.*sets\.yaml'),
    ({'view1.png': np.zeros((370, 6), np.uint8), 'view5.png': np.zeros((370, 6), np.uint8),
      'dmin.txt': 'many'}, r"dmin\.txt is 'many'"),
    (changed('ETH3D', **{'mask0nocc.png': np.zeros((3, 6), np.uint8)}),
     r'mask0nocc\.png is 6 x 3'),
    ({'left-image-half-size/b.jpg': 1, 'right-image-half-size/a.jpg': 1},
     r'left-image-half-size/b\.jpg has no partner'),
    *(({**image_pairs(['image_0', 'image_1'], ['000000', '000001']), 'times.txt': text},
       r'times\.txt') for text in ('now\n', '1\nnan\n', '-1\n', '1e300\n', '2011-99-26 13:02\n')),
    ({'left/1.png': 1, 'left/2.png': 1, 'right/3.png': 2}, r'left/1\.png has no partner .*1 more'),
    # Equal numbers of different scenes are no pair.
    ({f'frames_cleanpass/{name}.png': 1 for name in (
        'A/left/1', 'A/right/2', 'B/left/2', 'B/right/1')},
     r'A/left/1\.png has no partner'),
    ({'left_raw/1.png': 1, 'right_raw/1.png': 1}, '--left-glob and --right-glob, and a truth'),
    ({'left.png': 1}, 'image_0/NAME with image_1/NAME')])
def test_a_damaged_data_set_is_rejected_by_its_file(tmp_path, tree, words):
    build(tmp_path, tree)
    with pytest.raises(ValueError, match=words):
        list(open_dataset(tmp_path))


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


def test_an_image_that_a_side_lacks_is_counted_in_every_layout(tmp_path):
    for number in range(7):
        build(tmp_path / str(number), {
            **image_pairs(['left', 'right'], ['1', '2']), 'left/3.png': 1, 'right/0.png': 1})
    dataset = open_dataset(tmp_path)
    assert dataset.names == tuple(f'{folder}/{name}' for folder in range(7) for name in (1, 2))
    assert len(dataset.warnings) == 6
    assert dataset.warnings[5] == '2 more folders lack images'
    assert ('1 of 3 left images have no partner, which is 3.png and 1 of 3 right images have no '
            'partner, which is 0.png') in dataset.warnings[0]


@pytest.mark.parametrize('names', [
    ['lcam_left', 'lcam_right', 'lcam_front'], ['front_left', 'front_right', 'front'],
    ['left/1', 'right/1', 'front/1'], ['left', 'right', 'front'],
    ['side_left', 'side_right'], ['rear_left', 'rear_right', 'rear_center']])
def test_cameras_that_look_into_different_directions_are_no_pair(tmp_path, names):
    build(tmp_path, {f'{name}.png': 1 for name in names})
    with pytest.raises(ValueError, match=r'ring look away from each other.*--left-glob'):
        open_dataset(tmp_path)


@pytest.mark.parametrize(('left', 'right', 'is_told'), [
    ('CAM_FRONT_LEFT', 'CAM_FRONT_RIGHT', True), ('image_lcam_left', 'image_lcam_right', True),
    ('image_lcam_front', 'image_rcam_back', True), ('image_lcam_left', 'image_rcam_left', False),
    ('image_lcam_front', 'image_rcam_front', False), ('cam0', 'cam1', False)])
def test_of_named_files_the_directions_are_told(tmp_path, left, right, is_told):
    build(tmp_path, {f'{name}/{number}.png': 1 for number in range(2) for name in {
        left, right, 'CAM_FRONT', 'image_lcam_front', 'image_rcam_front', 'image_lcam_left'}})
    dataset = open_dataset(tmp_path, globs=Globs(f'{left}/*.png', f'{right}/*.png'))
    assert len(dataset) == 2
    assert any('look away from each other' in text for text in dataset.warnings) is is_told


def test_names_that_differ_but_for_their_numbers_are_pairs(tmp_path):
    build(tmp_path, {f'{side}/{side}_{number:03}.png': number
                     for side in ('left', 'right') for number in (1, 2, 4)})
    dataset = open_dataset(tmp_path)
    assert [(pair.left[0, 0], pair.right[0, 0]) for pair in dataset] == [(1, 1), (2, 2), (4, 4)]
    assert dataset.warnings == ()


def test_folders_and_files_have_one_order_and_hidden_ones_are_left_out(tmp_path):
    build(tmp_path, {f'drive_{drive}/frame_{number}_{side}.png': 1 for drive in (1, 2, 10)
                     for number in (1, 2, 10) for side in ('left', 'right')})
    for path in list(tmp_path.glob('*/*.png')):
        path.with_name(f'._{path.name}').write_bytes(b'\0\5\x16\7')
    assert open_dataset(tmp_path).names == tuple(
        f'drive_{drive}/frame_{number}' for drive in (1, 2, 10) for number in (1, 2, 10))


UNIX_NS = 1_700_000_000 * 10**9


@pytest.mark.parametrize('form', [
    lambda ns: f'{ns}', lambda ns: f'{ns // 10**3}', lambda ns: f'{ns // 10**6}',
    lambda ns: f'{ns / 1e9:.6f}', lambda ns: f'{ns / 1e9:.1f}', lambda ns: f'cam_{ns}',
    lambda ns: f'{ns // 10**9}_{ns % 10**9:09}', lambda ns: f'{ns // 10**9}-{ns % 10**9:09}'])
def test_digits_of_a_time_tell_its_unit(tmp_path, form):
    stamps = [UNIX_NS + step * 10**8 for step in range(9, 13)]
    build(tmp_path, image_pairs(['left', 'right'], list(map(form, stamps))))
    dataset = open_dataset(tmp_path)
    assert [pair.stamp_ns for pair in dataset] == stamps
    assert dataset.is_sequence
    assert not any(pair.is_numbered for pair in dataset)


@pytest.mark.parametrize('unit_ns', [1, 10**3, 10**6])
def test_a_tolerance_holds_in_every_unit(tmp_path, unit_ns):
    stamps = [UNIX_NS + step * 10**8 for step in range(3)]
    build(tmp_path, {f'{side}/{(stamp + late) // unit_ns}.png': 1 for stamp in stamps
                     for side, late in (('left', 0), ('right', 2 * 10**6))})
    with pytest.raises(ValueError, match=r'closest stamps differ by 0\.002000 s'):
        open_dataset(tmp_path)
    assert [pair.stamp_ns for pair in open_dataset(tmp_path, 0.005)] == stamps


def test_a_tolerance_that_has_no_effect_is_said(tmp_path):
    build(tmp_path, {**image_pairs(['left', 'right'], ['a1', 'a2']), 'left/a3.png': 1})
    assert 'their names are no stamps' in open_dataset(tmp_path, 0.01).warnings[0]
    assert 'stamps' not in open_dataset(tmp_path).warnings[0]


def test_pairs_of_a_sequence_are_in_the_order_of_their_numbers(tmp_path):
    build(tmp_path, image_pairs(['left', 'right'], ['frame_10', 'frame_9', 'frame_1']))
    assert open_dataset(tmp_path).names == ('frame_1', 'frame_9', 'frame_10')
