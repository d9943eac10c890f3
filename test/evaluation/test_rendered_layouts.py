"""Layouts of rendered sets and of sets with a scale of their own, as they come unpacked."""

import json

import numpy as np
import pytest

from stereo_bp_ros.evaluation import files
from stereo_bp_ros.evaluation.datasets import open_dataset
from test.cases import every
from test.evaluation.layouts import SIZE, save, save_pfm

SCENES = {
    'FlyingThings3D': ['TRAIN/A/0000', 'TRAIN/B/0001', 'TEST/C/0149'],
    'Monkaa': ['a_rain_of_stones_x2', 'eating_x2'],
    'Driving': ['15mm_focallength/scene_backwards/fast', '35mm_focallength/scene_forwards/slow'],
    'directly': ['']}


def save_scene_flow(root, scenes, passes=('frames_cleanpass',), suffix='png'):
    for number, scene in enumerate(scenes):
        for one in passes:
            save(root / one / scene / 'left' / f'0006.{suffix}', 1)
            save(root / one / scene / 'right' / f'0006.{suffix}', 2)
        save_pfm(root / 'disparity' / scene / 'left' / '0006.pfm', 10 + number)
        save_pfm(root / 'disparity' / scene / 'right' / '0006.pfm', 99)


@pytest.mark.parametrize('one', ['frames_cleanpass', 'frames_finalpass'])
@pytest.mark.parametrize('part', SCENES)
def test_sceneflow_has_its_truth_below_disparity_at_every_level(tmp_path, part, one):
    save_scene_flow(tmp_path / part, SCENES[part], (one,))
    dataset = open_dataset(tmp_path / part)
    assert dataset.names == tuple(f'{scene}/0006'.lstrip('/') for scene in sorted(SCENES[part]))
    truths = {f'{scene}/0006'.lstrip('/'): 10 + number
              for number, scene in enumerate(SCENES[part])}
    for pair in dataset:
        assert (pair.left.max(), pair.right.max()) == (1, 2)
        assert pair.truth.max() == truths[pair.name]


def test_sceneflow_is_found_from_above_and_from_inside_a_pass(tmp_path):
    for part, scenes in SCENES.items():
        save_scene_flow(tmp_path / 'datasets' / part, scenes)
    assert len(open_dataset(tmp_path / 'datasets')) == 8
    things = tmp_path / 'datasets' / 'FlyingThings3D' / 'frames_cleanpass'
    for start, name in ((things, 'TRAIN/B/0001/0006'), (things / 'TRAIN', 'B/0001/0006'),
                        (things / 'TRAIN' / 'B' / '0001', '0006')):
        truths = {pair.name: pair.truth.max() for pair in open_dataset(start)}
        assert truths[name] == 11


def test_both_passes_of_sceneflow_are_told_apart_by_their_names(tmp_path):
    save_scene_flow(tmp_path, ['A'], ('frames_cleanpass', 'frames_finalpass'))
    dataset = open_dataset(tmp_path)
    assert dataset.names == ('frames_cleanpass/A/0006', 'frames_finalpass/A/0006')
    assert every(pair.truth.max() == 10 for pair in dataset)


def test_the_subset_of_flyingthings_has_truths_below_0(tmp_path):
    for side in ('left', 'right'):
        save(tmp_path / 'train' / 'image_clean' / side / '0000000.png')
    save_pfm(tmp_path / 'train' / 'disparity' / 'left' / '0000000.pfm', -12)
    for start in (tmp_path, tmp_path / 'train'):
        assert open_dataset(start)[0].truth.min() == 12


def test_samples_of_sceneflow_have_left_truths_alone(tmp_path):
    for side in ('left', 'right'):
        save(tmp_path / 'RGB_cleanpass' / side / '0006.png')
    save_pfm(tmp_path / 'disparity' / '0006.pfm', 5)
    assert open_dataset(tmp_path)[0].truth.max() == 5


def test_sintel_keeps_its_truth_in_three_colours_and_masks_what_the_right_camera_misses(tmp_path):
    training = tmp_path / 'training'
    for one in ('clean', 'final'):
        for side in ('left', 'right'):
            save(training / f'{one}_{side}' / 'alley_1' / 'frame_0001.png')
    disparity = 7 + 3 / 64 + 5 / 16384
    colours = np.zeros((*SIZE, 3), np.uint8)
    colours[:] = (5, 3 * 64 + 3, 1)         # OpenCV's order: blue, green, red
    (training / 'disparities' / 'alley_1').mkdir(parents=True)
    files.write_image(training / 'disparities' / 'alley_1' / 'frame_0001.png', colours)
    for kind, column in (('occlusions', 1), ('outofframe', 0)):
        hidden = np.zeros(SIZE, np.uint8)
        hidden[:, column] = 255
        (training / kind / 'alley_1').mkdir(parents=True)
        files.write_image(training / kind / 'alley_1' / 'frame_0001.png', hidden)
    dataset = open_dataset(tmp_path)
    assert dataset.names == ('clean/alley_1/frame_0001', 'final/alley_1/frame_0001')
    for pair in dataset:
        np.testing.assert_allclose(pair.truth, disparity, rtol=1e-6)
        assert pair.occluded[:, :2].all()
        assert pair.occluded.sum() == 8
    save(training / 'disparities' / 'alley_1' / 'frame_0001.png')
    with pytest.raises(ValueError, match=r'frame_0001\.png is grey'):
        open_dataset(tmp_path)[0]


def save_tartan_air(folder, depth):
    for side in ('left', 'right'):
        save(folder / f'image_{side}' / f'000000_{side}.png')
    (folder / 'depth_left').mkdir()
    np.save(folder / 'depth_left' / '000000_left_depth.npy', depth)


def test_tartan_air_turns_its_depth_into_disparity(tmp_path):
    depth = np.full(SIZE, 10, np.float32)
    depth[0], depth[1, 0], depth[1, 1] = np.inf, 0, np.nan
    save_tartan_air(tmp_path / 'neighborhood' / 'Easy' / 'P000', depth)
    pair, = open_dataset(tmp_path)
    assert pair.name == 'neighborhood/Easy/P000/000000'
    assert pair.calibration.baseline_m == pytest.approx(0.25)
    assert pair.truth[2, 2] == pytest.approx(80 / 10)
    assert np.isfinite(pair.truth).sum() == 16


@pytest.mark.parametrize('damage', [
    lambda path: path.write_bytes(path.read_bytes()[:100]), lambda path: path.write_bytes(b''),
    lambda path: path.write_bytes(b'damaged'), lambda path: np.save(path, np.ones(3)),
    lambda path: np.save(path, np.ones(SIZE, int)),
    lambda path: np.save(path, np.array([{}], object), allow_pickle=True)])
def test_a_damaged_depth_of_tartan_air_is_rejected_by_name(tmp_path, damage):
    save_tartan_air(tmp_path, np.ones(SIZE, np.float32))
    damage(tmp_path / 'depth_left' / '000000_left_depth.npy')
    with pytest.raises(ValueError, match=r'000000_left_depth\.npy'):
        open_dataset(tmp_path)[0]


def save_falling_things(folder, levels=10000):
    for side in ('left', 'right'):
        save(folder / f'000000.{side}.jpg')
        save(folder / f'000000.{side}.depth.png', levels)
        save(folder / f'000000.{side}.seg.png', 3)
        (folder / f'000000.{side}.json').write_text('{}')
    (folder / '_camera_settings.json').write_text(json.dumps({'camera_settings': [{
        'name': 'left', 'intrinsic_settings': {'fx': 768.16, 'fy': 768.16, 'cx': 480, 'cy': 270},
        'captured_image_size': {'width': 960, 'height': 540}}]}))


def test_falling_things_turns_its_depth_into_disparity(tmp_path):
    save_falling_things(tmp_path / 'kitchen_0')
    pair, = open_dataset(tmp_path)
    assert pair.name == 'kitchen_0/000000'
    assert pair.truth[0, 0] == pytest.approx(768.16 * 0.06 / 1.0)
    assert pair.calibration.focal_px == 768.16
    save(tmp_path / 'kitchen_0' / '000000.left.depth.png', 65535)
    assert not np.isfinite(open_dataset(tmp_path)[0].truth).any()
    save(tmp_path / 'kitchen_0' / '000000.left.depth.png', 7)
    with pytest.raises(ValueError, match='has 8 bits'):
        open_dataset(tmp_path)[0]


@pytest.mark.parametrize('text', ['', '[]', '{}',
                                  '{"camera_settings": [{"intrinsic_settings": 3}]}',
                                  '[' * 100000, '{"camera_settings": []}'])
def test_damaged_settings_of_falling_things_are_rejected_by_name(tmp_path, text):
    save_falling_things(tmp_path)
    (tmp_path / '_camera_settings.json').write_text(text)
    with pytest.raises(ValueError, match=r'_camera_settings\.json has no intrinsic_settings'):
        open_dataset(tmp_path)[0]


def test_instereo2k_has_100_levels_a_pixel(tmp_path):
    for name in ('left', 'right'):
        save(tmp_path / 'train' / 'part1' / '000000' / f'{name}.png')
        save(tmp_path / 'train' / 'part1' / '000000' / f'{name}_disp.png', 1250)
    pair, = open_dataset(tmp_path)
    assert (pair.name, pair.truth.max()) == ('train/part1/000000', 12.5)
    save(tmp_path / 'train' / 'part1' / '000000' / 'left_disp.png', 125)
    with pytest.raises(ValueError, match=r'left_disp\.png has 8 bits'):
        open_dataset(tmp_path)[0]
    (tmp_path / 'train' / 'part1' / '000000' / 'right_disp.png').unlink()
    dataset = open_dataset(tmp_path)        # of another set, whose scale nobody knows
    assert dataset[0].truth is None
    assert 'left_disp.png' in dataset.warnings[0]


def test_crestereo_has_its_pairs_side_by_side_with_32_levels_a_pixel(tmp_path):
    for name in ('0a', '1b'):
        for side in ('left', 'right'):
            save(tmp_path / 'tree' / f'{name}_{side}.jpg', {'left': 1, 'right': 9}[side])
            save(tmp_path / 'tree' / f'{name}_{side}.disp.png', 400)
    dataset = open_dataset(tmp_path)
    assert dataset.names == ('tree/0a', 'tree/1b')
    assert [pair.truth.max() for pair in dataset] == [12.5, 12.5]
    assert dataset[1].right.max() == 9
    (tmp_path / 'tree' / '1b_right.jpg').unlink()
    with pytest.raises(ValueError, match=r'1b_left\.jpg has no partner'):
        open_dataset(tmp_path)


def test_argoverse_has_its_truth_in_a_tree_of_its_own_and_stamps_in_its_names(tmp_path):
    log, stamp = 'train/273c1883', 315970005529000000
    for side in ('left', 'right'):
        name = f'stereo_front_{side}_rect'
        save(tmp_path / 'rectified_stereo_images_v1.1' / log / name / f'{name}_{stamp}.jpg')
    name = 'stereo_front_left_rect_disparity'
    save(tmp_path / 'disparity_maps_v1.1' / log / name / f'{name}_{stamp}.png', 2560)
    for start in (tmp_path, tmp_path / 'rectified_stereo_images_v1.1' / log):
        pair, = open_dataset(start)
        assert (pair.stamp_ns, pair.truth.max()) == (stamp, 10)
