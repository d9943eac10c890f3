"""Folders of pairs through one face: trees, descriptions, masks, warnings, and the real data."""

import re

import cv2
import numpy as np
import pytest

from stereo_bp_ros.cli.main import main
from stereo_bp_ros.config.files import read_yaml
from stereo_bp_ros.evaluation.metrics import score
from stereo_bp_ros.sources.datasets import entries, named
from stereo_bp_ros.sources.datasets.dataset import LAYOUTS, open_dataset
from stereo_bp_ros.system import bounded
from test.evaluation.layouts import build, save, save_pair, save_pfm

CALIBRATION = ('cam0=[500 0 30; 0 500 20; 0 0 1]\ncam1=[500 0 30; 0 500 20; 0 0 1]\n'
               'baseline=60\nwidth=64\nheight=48\nndisp=8\n')


def eth3d(folder):
    """A set of ETH3D or of the third Middlebury evaluation without its truth."""
    return {f'{folder}/im0.png': 1, f'{folder}/im1.png': 2, f'{folder}/calib.txt': CALIBRATION}


# Trees

@pytest.mark.parametrize(('images', 'truths'), [
    ('two_view_training/hall', 'two_view_training_gt/hall'),
    ('MiddEval3/trainingQ/hall', 'MiddEval3/trainingQ/hall'),
    ('MiddEval3/trainingQ/hall', 'MiddEval3/trainingQ_gt/hall')])
def test_a_truth_in_a_tree_of_its_own_is_that_of_the_set_of_the_same_name(
        tmp_path, images, truths):
    build(tmp_path, {**eth3d(images), f'{truths}/disp0GT.pfm': 4, f'{truths}/mask0nocc.png': 255,
                     f'{truths}/../other/disp0GT.pfm': 7})
    folder = tmp_path / images
    for start in (folder, folder.parent, folder.parent.parent):
        dataset = open_dataset(start)
        pair, = dataset
        assert (pair.truth.max(), pair.occluded.sum()) == (4, 0)
        assert not dataset.warnings


def test_pairs_are_found_four_levels_below_and_no_further(tmp_path):
    for place in ('b/2', 'a', 'b/1/x/y', 'c/1/x/y/z', '.cache/hall'):
        save_pair(tmp_path / place)
    dataset = open_dataset(tmp_path)
    assert dataset.names == ('a', 'b/1/x/y', 'b/2')
    assert dataset.layout == 'folder of pair'
    (tmp_path / 'nothing').mkdir()
    with pytest.raises(ValueError, match='4 levels deep'):
        open_dataset(tmp_path / 'nothing')
    assert entries.list_folder(tmp_path / 'nowhere') == []


def test_links_are_followed_once_and_lead_into_no_loop(tmp_path):
    save_pair(tmp_path / 'elsewhere' / 'hall')
    (tmp_path / 'sets').mkdir()
    for link, target in (('sets/linked', 'elsewhere'), ('sets/again', 'elsewhere'),
                         ('sets/loop', 'sets'), ('elsewhere/up', 'sets'),
                         ('sets/broken', 'nowhere')):
        (tmp_path / link).symlink_to(tmp_path / target)
    assert open_dataset(tmp_path / 'sets').names == ('again/hall',)


def test_a_tree_with_too_many_folders_is_rejected_with_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr('stereo_bp_ros.sources.datasets.dataset.MAX_FOLDERS', 20)
    for number in range(25):
        save_pair(tmp_path / f'{number:02d}')
    with pytest.raises(ValueError, match='more than 20: name one'):
        open_dataset(tmp_path)


def test_listing_a_tree_decodes_no_image_and_reads_no_truth(tmp_path, monkeypatch):
    for name in ('one', 'two'):
        build(tmp_path, {**eth3d(f'two_view_training/{name}'),
                         f'two_view_training_gt/{name}/disp0GT.pfm': 4,
                         f'flying/frames_cleanpass/A/left/{name}.png': 1,
                         f'flying/frames_cleanpass/A/right/{name}.png': 1,
                         f'flying/disparity/A/left/{name}.pfm': 4})
    read = []
    content = bounded.read_bytes

    def reading(path, limit):
        if path.suffix == '.txt':       # a calibration
            return content(path, limit)
        read.append(path)
        raise ValueError('read')

    monkeypatch.setattr(bounded, 'read_bytes', reading)
    dataset = open_dataset(tmp_path)
    assert len(dataset) == 4
    assert not read
    with pytest.raises(ValueError, match='read'):
        dataset[0]


# Truths that are not read

UNREAD = {
    'eth3d of another name': (['two_view_training/hall/im0.png', 'two_view_training/hall/im1.png'],
                              'two_view_training_gt/hall/disparity.pfm', 'two_view_training',
                              r'two_view_training_gt looks .* needs disp0\.pfm or '),
    'kitti 2015 for grey images': (['image_0/1_10.png', 'image_1/1_10.png'],
                                   'disp_occ_0/1_10.png', '',
                                   r'disp_occ_0 looks .* needs disp_occ/NAME\.png or '),
    'kitti of other frames': (['image_2/1_11.png', 'image_3/1_11.png'],
                              'disp_occ_0/1_10.png', '', r'needs disp_occ_0/NAME'),
    'sceneflow as png': (['frames_cleanpass/left/1.png', 'frames_cleanpass/right/1.png'],
                         'disparity/left/1.png', '',
                         r'disparity looks .* needs disparity/\.\.\./left/NAME\.pfm or '),
    'beside a sequence': (['run/left/1.png', 'run/right/1.png'], 'run_gt/1.png', 'run',
                          r'run_gt looks'),
    'a sequence': (['left/1.png', 'right/1.png', 'disp_right/1.pfm'], 'disp_left/1.pfm', '',
                   r'disp_left looks .* needs disparity/NAME'),
    'a pair': (['left.png', 'right.png'], 'gt_disp.png', '', r'gt_disp\.png looks .* needs'),
    'raw data': (['image_00/data/1.png', 'image_01/data/1.png'], 'depth/1.png', '',
                 r'depth looks .* has none: --truth-glob names it'),
    'another size': (['MiddEval3/trainingQ/hall/im0.png', 'MiddEval3/trainingQ/hall/im1.png'],
                     'MiddEval3-GT0-H/MiddEval3/trainingH/hall/disp0GT.pfm', 'MiddEval3',
                     'MiddEval3-GT0-H'),
    'many folders': ([f'{name}/{kind}.png' for name in 'abc' for kind in (
        'left', 'right', 'disp')], 'a/disp.png', '', 'disp.png looks')}


@pytest.mark.parametrize('kind', UNREAD)
def test_a_truth_that_is_not_read_is_named_once_with_what_the_layout_needs(tmp_path, kind):
    images, truth, start, words = UNREAD[kind]
    build(tmp_path / 'set', {**dict.fromkeys(images, 1), truth: ''})
    dataset = open_dataset(tmp_path / 'set' / start)
    assert not dataset.has_truth
    warning, = dataset.warnings
    assert re.search(words, warning)
    assert str(tmp_path) in warning


def test_what_is_no_truth_is_not_warned_of(tmp_path):
    build(tmp_path, {'hall/left.png': 1, 'hall/right.png': 2, 'hall/disparity_picture.png': 3,
                     'depth_of_field/readme': '', **eth3d('two_view_testing/yard'),
                     **eth3d('MiddEval3/trainingQ/hall'), **eth3d('MiddEval3/testQ/yard'),
                     'MiddEval3/trainingQ/hall/disp0GT.pfm': 4,
                     **eth3d('two_view_training/hall'),
                     'two_view_training_gt/hall/disp0GT.pfm': 4})
    for name in ('two_view_testing', 'hall', 'MiddEval3'):
        assert not open_dataset(tmp_path / name).warnings
    # A truth of both sides is no sequence of images.
    for side in ('left', 'right'):
        save_pfm(tmp_path / 'flow' / 'disparity' / side / '1.pfm')
    save_pair(tmp_path / 'flow' / 'hall')
    assert open_dataset(tmp_path / 'flow').names == ('hall',)


def test_evaluate_names_a_truth_that_it_does_not_read(tmp_path, capsys, caplog):
    fast = ('--backend', 'cpu', '--repeat', '1', '--set', 'stereo_algorithm=sad', '--set',
            'disparity_range=8', '--set', 'correlation_window_size=5')
    save_pair(tmp_path / 'hall', (48, 64))
    save(tmp_path / 'hall' / 'disp.png')
    assert main(['evaluate', str(tmp_path), '--output', str(tmp_path / 'report'), *fast]) == 0
    assert 'disp.png looks like a ground truth and was not read' in caplog.text
    printed = capsys.readouterr().out
    assert 'No truth was read.' in printed
    for name in ('report.json', 'report.html'):
        assert 'disp.png looks like' in (tmp_path / 'report' / name).read_text()


def test_the_reference_lists_every_layout_of_the_table(repository):
    page = (repository / 'docs/reference/files.md').read_text()
    table = page.partition('## Folders of pairs')[2].partition('\n\n')[2].partition('\n\n')[2]
    rows = [line.split('|')[1].strip() for line in table.partition('\n\n')[0].splitlines()[2:]]
    names = [layout.name for layout in LAYOUTS]
    assert not [name for name in names if not any(row.startswith(name) for row in rows)]
    assert not [row for row in rows if not any(row.startswith(name) for name in names)]


# Descriptions

@pytest.mark.parametrize('text', [
    '[1, 2]', 's: 3', 's: {disparities: 16}', 's: {b: [', '{}',
    *(f's: {{disparities: {value}, disparity_scale: {scale}}}' for value, scale in (
        (16, '.inf'), (16, '.nan'), (16, '0'), (16, '-8'), (16, '1' + 400 * '0'), (16, '[8]'),
        (16, 'eight'), ('2001-13-45', 8), ('!!int x', 8), ('.nan', 8), ('0', 8), ('eight', 8))),
    *(f's: {{disparities: 16, disparity_scale: 8, stamp_ns: {stamp}}}' for stamp in (
        '-1', '1.5', 'now', str(2**63), '[1]'))])
def test_a_description_that_makes_no_sense_is_refused_by_name(tmp_path, text):
    save_pair(tmp_path / 's')
    (tmp_path / 'sets.yaml').write_text(text)
    with pytest.raises(ValueError, match=r'sets\.yaml'):
        open_dataset(tmp_path)


def test_described_sets_keep_their_order_scale_range_and_stamp_and_are_read_once(
        tmp_path, monkeypatch):
    for name in ('b', 'a'):
        save_pair(tmp_path / name)
        save(tmp_path / name / 'disparity.png', 40)
    (tmp_path / 'sets.yaml').write_text(
        'b: {disparities: 16, disparity_scale: 8, stamp_ns: 123}\n'
        'a: {disparities: 32, disparity_scale: 4}\n')
    read = []
    monkeypatch.setattr(named, 'read_yaml', lambda path: read.append(path) or read_yaml(path))
    assert [(pair.name, pair.disparities, float(pair.truth[0, 0]), pair.stamp_ns)
            for pair in open_dataset(tmp_path)] == [('b', 16, 5.0, 123), ('a', 32, 10.0, None)]
    assert read == [tmp_path / 'sets.yaml']
    alone = open_dataset(tmp_path / 'a')[0]
    assert (alone.disparities, float(alone.truth[0, 0])) == (32, 10.0)


def test_a_number_of_disparities_that_is_none_is_refused_by_name(tmp_path):
    for value in ('\u00b2', '9' * 400, '-3', ''):
        build(tmp_path, {'im0.png': 1, 'im1.png': 1, 'calib.txt': f'ndisp={value}\n'})
        with pytest.raises(ValueError, match=r'calib\.txt: ndisp is'):
            open_dataset(tmp_path)


# Masks, sizes, files

def test_masks_and_classes_lie_beside_a_pair_and_have_its_size(tmp_path):
    hall = tmp_path / 'hall'
    build(hall, {'left.png': 1, 'right.png': 1, 'vehicles.png': 1, 'classes/pole.png': 1,
                 'classes/sky.png': 1})
    pair = open_dataset(hall)[0]
    assert (pair.vehicles.dtype, pair.vehicles.all()) == (np.bool_, True)
    assert (list(pair.classes), pair.classes['pole'].all(), pair.sky.all()) == (
        ['pole'], True, True)
    # A mask of the sky beside the pair is the one that counts.
    save(hall / 'sky.png', 0)
    assert not open_dataset(hall)[0].sky.any()
    for name, mask, words in (
            ('sky.png', np.zeros((4, 5), np.uint8),
             r'mask of the sky of .*left\.png is 5 x 4, the image 6 x 4'),
            ('sky.png', np.zeros((4, 6, 3), np.uint8), r'sky\.png is not grey'),
            ('classes/pole.png', np.zeros((4, 5), np.uint8),
             r'mask of the class pole of .*left\.png is 5 x 4'),
            ('classes/Pole 1.png', np.zeros((4, 6), np.uint8),
             r"a class is named 'Pole 1', but a name has small")):
        build(hall, {'sky.png': 0, 'classes/pole.png': 0, name: mask})
        with pytest.raises(ValueError, match=words):
            open_dataset(hall)[0]


def test_files_are_read_and_judged_only_when_a_pair_is_asked_for(tmp_path):
    build(tmp_path, {'0/left.png': 1, '0/right.png': 2, '1/left.png': 1, '1/right.png': '',
                     '2/left.png': 1, '2/right.png': np.zeros((4, 7), np.uint8),
                     '3/left.png': 1, '3/right.png': 2})
    save_pfm(tmp_path / '3' / 'disparity.pfm', size=(3, 6))
    dataset = open_dataset(tmp_path)
    assert dataset[0].name == '0'
    for index, words in ((1, r'1/right\.png'), (2, '7 x 4'), (3, 'ground truth')):
        with pytest.raises(ValueError, match=words):
            dataset[index]


def test_what_is_no_folder_of_pairs_is_named(tmp_path):
    save(tmp_path / 'sets' / 'left.png', 100)
    for path, words in (('nowhere', r'there is no folder .*nowhere'),
                        ('sets/left.png', r'left\.png is a file'),
                        ('sets', 'sets.*image_0/NAME with image_1/NAME')):
        with pytest.raises(ValueError, match=words):
            open_dataset(tmp_path / path)
    for side in ('left', 'right'):
        (tmp_path / 'empty' / side).mkdir(parents=True)
    with pytest.raises(ValueError, match=r'no stereo pairs in .*empty'):
        open_dataset(tmp_path / 'empty')


# Real data

def test_the_real_sets_have_their_names_sizes_and_calibrations(data):
    dataset = open_dataset(data / 'middlebury')
    assert dataset.names == ('tsukuba', 'venus', 'barn1', 'cones_quarter', 'cones_half', 'teddy')
    for pair in dataset:
        assert pair.left.ndim == 2
        assert np.nanmax(pair.truth) < pair.disparities
    pair, = open_dataset(data / 'middlebury2014')
    assert (pair.name, pair.left.shape, pair.disparities) == ('Motorcycle', (500, 741, 3), 64)
    assert pair.calibration.shift == pytest.approx(-31.086)
    dataset = open_dataset(data / 'sequence')
    assert len(dataset) == 60
    assert np.allclose(np.diff([int(name) for name in dataset.names]), 50e6, atol=1e4)
    assert dataset[-1].calibration.baseline_m == pytest.approx(0.110, abs=1e-3)
    assert not open_dataset(data / 'driving').has_truth


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
