"""Folders of folders, and truths that lie beside their images: how people keep data sets."""

import re

import numpy as np
import pytest

from stereo_bp_ros import bounded
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.evaluation import datasets, files
from stereo_bp_ros.evaluation.datasets import entries, open_dataset
from test.evaluation.layouts import save, save_pair, save_pfm

FAST = ('--backend', 'cpu', '--repeat', '1', '--set', 'stereo_algorithm=sad', '--set',
        'disparity_range=8', '--set', 'correlation_window_size=5')

CALIBRATION = ('cam0=[500 0 30; 0 500 20; 0 0 1]\ncam1=[500 0 30; 0 500 20; 0 0 1]\n'
               'baseline=60\nwidth=64\nheight=48\nndisp=8\n')


def save_set(folder):
    """A set of ETH3D or of the third evaluation without its truth."""
    for name in ('im0.png', 'im1.png'):
        save(folder / name)
    (folder / 'calib.txt').write_text(CALIBRATION)


TREES = {
    'eth3d': ('two_view_training/hall', 'two_view_training_gt/hall'),
    'in place': ('MiddEval3/trainingQ/hall', 'MiddEval3/trainingQ/hall'),
    'sibling of the part': ('MiddEval3/trainingQ/hall', 'MiddEval3/trainingQ_GT/hall'),
    'archive of its own': ('MiddEval3/trainingQ/hall', 'MiddEval3-GT0-Q/trainingQ/hall'),
    'archive as it unpacks': ('MiddEval3/trainingQ/hall',
                              'MiddEval3-GT0-Q/MiddEval3/trainingQ/hall'),
    'both archives': ('MiddEval3-data-Q/MiddEval3/trainingQ/hall',
                      'MiddEval3-GT0-Q/MiddEval3/trainingQ/hall')}


@pytest.mark.parametrize('name', ['disp0GT.pfm', 'disp0.pfm'])
@pytest.mark.parametrize('tree', TREES)
def test_a_truth_in_a_tree_of_its_own_is_that_of_the_set_of_the_same_name(tmp_path, tree, name):
    images, truths = (tmp_path / place for place in TREES[tree])
    save_set(images)
    save_pfm(truths / name)
    save(truths / 'mask0nocc.png', 255)
    (truths.parent / 'other').mkdir()
    save_pfm(truths.parent / 'other' / name, 7.0)
    for start in (images, images.parent, images.parent.parent):
        pair, = open_dataset(start)
        assert pair.truth.max() == 4
        assert pair.occluded.sum() == 0
        assert pair.calibration.baseline_m == pytest.approx(0.06)
        assert not open_dataset(start).warnings


def test_truths_of_another_size_of_the_third_evaluation_are_not_taken(tmp_path):
    save_set(tmp_path / 'MiddEval3' / 'trainingQ' / 'hall')
    save_pfm(tmp_path / 'MiddEval3-GT0-H' / 'MiddEval3' / 'trainingH' / 'hall' / 'disp0GT.pfm')
    dataset = open_dataset(tmp_path / 'MiddEval3')
    assert not dataset.has_truth
    assert 'MiddEval3-GT0-H' in dataset.warnings[0]


def test_pairs_are_found_four_levels_below_and_no_further(tmp_path):
    for place in ('b/2', 'a', 'b/1/x/y', 'c/1/x/y/z'):
        save_pair(tmp_path / place)
    dataset = open_dataset(tmp_path)
    assert dataset.names == ('a', 'b/1/x/y', 'b/2')
    assert dataset.layout == 'folder of pair'
    (tmp_path / 'nothing').mkdir()
    with pytest.raises(ValueError, match='4 levels deep'):
        open_dataset(tmp_path / 'nothing')


def test_links_are_followed_once_and_lead_into_no_loop(tmp_path):
    save_pair(tmp_path / 'elsewhere' / 'hall')
    (tmp_path / 'sets').mkdir()
    (tmp_path / 'sets' / 'linked').symlink_to(tmp_path / 'elsewhere')
    (tmp_path / 'sets' / 'again').symlink_to(tmp_path / 'elsewhere')
    (tmp_path / 'sets' / 'loop').symlink_to(tmp_path / 'sets')
    (tmp_path / 'elsewhere' / 'up').symlink_to(tmp_path / 'sets')
    (tmp_path / 'sets' / 'broken').symlink_to(tmp_path / 'nowhere')
    assert open_dataset(tmp_path / 'sets').names == ('again/hall',)


def test_hidden_folders_are_no_part_of_a_data_set(tmp_path):
    save_pair(tmp_path / '.cache' / 'hall')
    save_pair(tmp_path / 'hall')
    assert open_dataset(tmp_path).names == ('hall',)


def test_a_tree_with_too_many_folders_is_rejected_with_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, 'MAX_FOLDERS', 20)
    for number in range(25):
        (tmp_path / f'{number:02d}').mkdir()
    save_pair(tmp_path / '99')
    with pytest.raises(ValueError, match='more than 20: name one'):
        open_dataset(tmp_path)


def test_listing_a_tree_decodes_no_image_and_reads_no_truth(tmp_path, monkeypatch):
    for name in ('one', 'two'):
        save_set(tmp_path / 'two_view_training' / name)
        save_pfm(tmp_path / 'two_view_training_gt' / name / 'disp0GT.pfm')
    for frame in ('0', '1'):
        for side in ('left', 'right'):
            save(tmp_path / 'flying' / 'frames_cleanpass' / 'A' / side / f'{frame}.png')
        save_pfm(tmp_path / 'flying' / 'disparity' / 'A' / 'left' / f'{frame}.pfm')
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


UNREAD = {
    'eth3d of another name': (['two_view_training/hall/im0.png', 'two_view_training/hall/im1.png'],
                              'two_view_training_gt/hall/disparity.pfm', 'two_view_training',
                              r'two_view_training_gt looks .* needs disp0GT\.pfm or disp0\.pfm'),
    'kitti 2015 for grey images': (['image_0/1_10.png', 'image_1/1_10.png'],
                                   'disp_occ_0/1_10.png', '',
                                   r'disp_occ_0 looks .* needs disp_occ/ or disp_noc/'),
    'kitti of other frames': (['image_2/1_11.png', 'image_3/1_11.png'],
                              'disp_occ_0/1_10.png', '', r'needs disp_occ_0/ .* left images'),
    'sceneflow as png': (['frames_cleanpass/left/1.png', 'frames_cleanpass/right/1.png'],
                         'disparity/left/1.png', '', r'disparity looks .* as \.pfm'),
    'a sequence': (['left/1.png', 'right/1.png'], 'gt/1.png', '', r'gt looks .* needs disparity/'),
    'beside a sequence': (['run/left/1.png', 'run/right/1.png'], 'run_gt/1.png', 'run',
                          r'run_gt looks'),
    'a pair': (['left.png', 'right.png'], 'gt_disp.png', '', r'gt_disp\.png looks .* needs'),
    'raw data': (['image_00/data/1.png', 'image_01/data/1.png'], 'depth/1.png', '',
                 r'depth looks .* has none: write left\.png')}


@pytest.mark.parametrize('kind', UNREAD)
def test_a_truth_that_is_not_read_is_named_with_what_the_layout_needs(tmp_path, kind):
    images, truth, start, words = UNREAD[kind]
    for path in images:
        save(tmp_path / 'set' / path)
    (tmp_path / 'set' / truth).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / 'set' / truth).write_bytes(b'')
    dataset = open_dataset(tmp_path / 'set' / start)
    assert not dataset.has_truth
    warning, = dataset.warnings
    assert re.search(words, warning)
    assert str(tmp_path) in warning


def test_what_is_no_truth_is_not_warned_of(tmp_path):
    save_pair(tmp_path / 'hall')
    save(tmp_path / 'hall' / 'disparity_picture.png')
    save_pfm(tmp_path / 'two_view_training_gt' / 'hall' / 'disp0GT.pfm')
    save_set(tmp_path / 'two_view_training' / 'hall')
    save_set(tmp_path / 'two_view_testing' / 'yard')
    (tmp_path / 'depth_of_field').mkdir()
    assert not open_dataset(tmp_path / 'two_view_testing').warnings
    (tmp_path / 'two_view_training_gt').rename(tmp_path / 'elsewhere')
    assert not open_dataset(tmp_path / 'hall').warnings


def test_parts_for_a_test_have_no_truth_and_no_warning(tmp_path):
    save_set(tmp_path / 'MiddEval3' / 'trainingQ' / 'hall')
    save_set(tmp_path / 'MiddEval3' / 'testQ' / 'yard')
    truths = tmp_path / 'MiddEval3-GT0-Q' / 'MiddEval3' / 'trainingQ' / 'hall'
    save_pfm(truths / 'disp0GT.pfm')
    assert not open_dataset(tmp_path / 'MiddEval3').warnings
    (truths / 'disp0GT.pfm').rename(truths / 'disp.pfm')
    assert 'MiddEval3-GT0-Q' in open_dataset(tmp_path / 'MiddEval3').warnings[0]


def test_many_folders_without_a_truth_make_one_warning(tmp_path):
    for name in ('one', 'two', 'three'):
        save_pair(tmp_path / name)
        save(tmp_path / name / 'disp.png')
    assert len(open_dataset(tmp_path).warnings) == 1


def test_evaluate_names_a_truth_that_it_does_not_read(tmp_path, capsys, caplog):
    save_pair(tmp_path / 'hall', (48, 64))
    assert main(['evaluate', str(tmp_path), *FAST]) == 0
    assert 'There is no truth.' in capsys.readouterr().out
    save(tmp_path / 'hall' / 'disp.png')
    assert main(['evaluate', str(tmp_path), '--output', str(tmp_path / 'report'), *FAST]) == 0
    assert 'disp.png looks like a ground truth and was not read' in caplog.text
    printed = capsys.readouterr().out
    assert 'There is no truth' not in printed
    assert 'No truth was read: see the warning.' in printed
    for name in ('report.json', 'report.html'):
        assert 'disp.png looks like' in (tmp_path / 'report' / name).read_text()


def test_a_truth_in_pfm_of_both_sides_is_no_sequence_of_images(tmp_path):
    save_pair(tmp_path / 'hall')
    for side in ('left', 'right'):
        save_pfm(tmp_path / 'disparity' / side / '1.pfm')
    assert open_dataset(tmp_path).names == ('hall',)


def test_a_sequence_may_have_its_truth_beside_it(tmp_path):
    for side in ('left', 'right'):
        for name in ('1', '2', '3'):
            save(tmp_path / side / f'{name}.png')
    save_pfm(tmp_path / 'disparity' / '1.pfm', 2.5)
    files.write_disparity_png(tmp_path / 'disparity' / '2.png', np.full((4, 6), 3.5))
    truths = [pair.truth for pair in open_dataset(tmp_path)]
    assert (truths[0].max(), truths[1].max(), truths[2]) == (2.5, 3.5, None)


@pytest.mark.parametrize(('left', 'right'), [
    ('cam0', 'cam1'), ('cam0/data', 'cam1/data'), ('Left', 'Right'), ('image_left', 'image_right'),
    ('LEFT_RGB', 'RIGHT_RGB'), ('l', 'r'), ('camera_1', 'camera_2'), ('infra1', 'infra2'),
    ('rect_left_8bit', 'rect_right_8bit')])
def test_folders_of_a_sequence_may_have_other_names(tmp_path, left, right):
    for name, value in ((left, 1), (right, 2)):
        save(tmp_path / name / '17.png', value)
    save_pfm(tmp_path / 'disp_left' / '17.pfm')
    save_pfm(tmp_path / 'disp_right' / '17.pfm')
    pair, = open_dataset(tmp_path)
    assert (pair.left.max(), pair.right.max(), pair.stamp_ns) == (1, 2, 17)


def test_names_of_a_sequence_may_differ_by_left_and_right(tmp_path):
    for side, value in (('left', 1), ('right', 2)):
        for name in ('street', 'yard'):
            save(tmp_path / side / f'{name}_{side}.jpg', value)
    pairs = list(open_dataset(tmp_path))
    assert [pair.name for pair in pairs] == ['street_left', 'yard_left']
    assert [(pair.left.max(), pair.right.max()) for pair in pairs] == [(1, 2), (1, 2)]


@pytest.mark.parametrize('form', ['{name}_{side}', '{side}_{name}'])
def test_pairs_may_lie_side_by_side_in_a_folder_of_no_other_images(tmp_path, form):
    for side, value in (('left', 1), ('right', 2)):
        for name in ('street', 'yard'):
            save(tmp_path / f'{form.format(name=name, side=side)}.png', value)
    pairs = list(open_dataset(tmp_path))
    assert [(pair.name, pair.left.max(), pair.right.max()) for pair in pairs] == [
        ('street', 1, 2), ('yard', 1, 2)]
    save(tmp_path / 'icon.png')
    with pytest.raises(ValueError, match='no stereo pairs'):
        open_dataset(tmp_path)


def test_several_pairs_of_folders_are_rejected_by_their_names(tmp_path):
    for name in ('left_raw', 'right_raw', 'left_rect', 'right_rect'):
        save(tmp_path / name / '1.png')
    with pytest.raises(ValueError, match='left_raw with right_raw, left_rect with right_rect'):
        open_dataset(tmp_path)


def test_the_reference_lists_every_layout_of_the_table(repository):
    page = (repository / 'docs/reference/files.md').read_text()
    table = page.partition('## Folders of pairs')[2].partition('\n\n')[2].partition('\n\n')[2]
    rows = [line.split('|')[1].strip() for line in table.partition('\n\n')[0].splitlines()[2:]]
    names = [layout.name for layout in datasets.LAYOUTS]
    assert len(set(names)) == len(names)
    assert not [name for name in names if not any(row.startswith(name) for row in rows)]
    assert not [row for row in rows if not any(row.startswith(name) for name in names)]


def test_an_unreadable_folder_holds_nothing(tmp_path):
    assert entries.list_folder(tmp_path / 'nowhere') == []
