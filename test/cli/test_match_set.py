"""stereo_bp match of a set: results of every pair as files, also after an interruption."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any

import numpy as np
import pytest

pytest.importorskip('numba')
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.cli.match_set import SetMatching
from stereo_bp_ros.images import files
from stereo_bp_ros.sources.scenes.misalignment import Misalignment
from stereo_bp_ros.sources.scenes.sequence import RoadSequence
from test.cli import side_by_side as recorded
from test.machine import file_size_limit

FAST = ['--set', 'stereo_algorithm=sad', '--set', 'disparity_range=16', '--backend', 'cpu']
SIDE_BY_SIDE = ['--side-by-side', 'top_bottom']


def match(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert main(['match', *map(str, arguments), *FAST, '--json']) == 0
    return dict(json.loads(capsys.readouterr().out))


def error_of(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert main(['match', *map(str, arguments), *FAST]) == 2
    return capsys.readouterr().err.splitlines()[-1]


def content(folder: pathlib.Path) -> dict[str, bytes]:
    """Every result by its name."""
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob('*')) if path.is_file() and path.name != 'match.json'}


@pytest.fixture
def pairs(tmp_path: pathlib.Path) -> pathlib.Path:
    return recorded.write_pairs(tmp_path / 'pairs', recorded.images(), recorded.stamps())


def test_every_output_of_each_pair_is_what_two_images_give(
        pairs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = match(capsys, pairs, '-o', tmp_path / 'out')
    assert (report['matched'], report['kept'], report['skipped']) == (4, 0, [])
    found = content(tmp_path / 'out')
    assert len(found) == 4 * 5
    name = recorded.stamps()[2]
    alone = tmp_path / 'alone'
    alone.mkdir()
    match(capsys, *(pairs / side / f'{name}.png' for side in ('left', 'right')), '--calibration',
          pairs / 'P_left.txt', '-o', alone / 'disparity.pfm', '--picture', alone / 'picture.png',
          '--depth', alone / 'depth.pfm', '--points', alone / 'points.ply', '--confidence',
          alone / 'confidence.pfm')
    for path in alone.iterdir():
        assert found[f'{path.stem}/{name}{path.suffix}'] == path.read_bytes()


@pytest.mark.parametrize('kind', recorded.LOSSLESS)
def test_side_by_side_sources_have_the_results_of_two_images_each(
        kind: str, pairs: pathlib.Path, tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    match(capsys, pairs, '-o', tmp_path / 'out')
    source = recorded.LOSSLESS[kind](tmp_path / 'source', 'top_bottom')
    match(capsys, source, *SIDE_BY_SIDE, '-o', tmp_path / 'other')
    assert content(tmp_path / 'other') == content(tmp_path / 'out')


def test_videos_have_the_results_of_their_decoded_frames(
        tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place, side in enumerate(('left', 'right')):
        recorded.write_video(tmp_path / f'{side}.avi', (pair[place] for pair in recorded.images()))
    video = recorded.write_video(tmp_path / 'both.avi', (
        recorded.joined(*pair, 'top_bottom') for pair in recorded.images()))
    names = [f'{place:06}' for place in range(4)]
    halves = [tuple(np.split(frame, 2)) for frame in recorded.decoded(video)]
    sides = list(zip(*(recorded.decoded(tmp_path / f'{side}.avi') for side in ('left', 'right')),
                     strict=True))
    for number, (images, source) in enumerate((
            (halves, [video, *SIDE_BY_SIDE]),
            (sides, [tmp_path / 'left.avi', tmp_path / 'right.avi']), (sides, [tmp_path]))):
        folder = recorded.write_pairs(tmp_path / f'pairs_{number}', images, names)
        calibration = ['--calibration', folder / 'P_left.txt']
        outside = tmp_path.parent / f'{tmp_path.name}_{number}'
        match(capsys, folder, '-o', outside / 'expected', *calibration)
        match(capsys, *source, '-o', outside / 'found', *calibration)
        assert len(content(outside / 'found')) == 4 * 5
        assert content(outside / 'found') == content(outside / 'expected')


def test_a_side_by_side_image_is_matched_as_two(pairs: pathlib.Path, tmp_path: pathlib.Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    name = recorded.stamps()[0]
    folder = recorded.write_images(tmp_path / 'both', 'top_bottom')
    found = match(capsys, folder / f'{name}.png', *SIDE_BY_SIDE, '-o', tmp_path / 'one.pfm')
    two = match(capsys, *(pairs / side / f'{name}.png' for side in ('left', 'right')), '-o',
                tmp_path / 'two.pfm')
    assert found['valid_fraction'] == two['valid_fraction']
    assert (tmp_path / 'one.pfm').read_bytes() == (tmp_path / 'two.pfm').read_bytes()


def test_results_are_read_back_as_truths(pairs: pathlib.Path, tmp_path: pathlib.Path,
                                         capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ('.pfm', '.png'):
        match(capsys, pairs, '-o', tmp_path / ending[1:], '--write', f'disparity{ending}')
        shutil.copytree(tmp_path / ending[1:] / 'disparity', pairs / 'disparity',
                        dirs_exist_ok=True)
        assert main(['evaluate', str(pairs), *FAST, '--repeat', '1', '--json']) == 0
        for pair in json.loads(capsys.readouterr().out)['pairs']:
            assert pair['score']['known'] > 1000
            assert pair['score']['mae'] == pytest.approx(0, abs=1 / 256)
        shutil.rmtree(pairs / 'disparity')


def test_only_what_is_missing_is_matched_again(pairs: pathlib.Path, tmp_path: pathlib.Path,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    out, names = tmp_path / 'out', recorded.stamps()
    match(capsys, pairs, '-o', out)
    whole = content(out)
    (out / 'points' / f'{names[1]}.ply').unlink()
    shutil.rmtree(out / 'confidence')
    (out / 'confidence').mkdir()
    for name in (names[0], names[3]):
        (out / 'confidence' / f'{name}.pfm').write_bytes(whole[f'confidence/{name}.pfm'])
    times = {path: path.stat().st_mtime_ns for path in (out / 'disparity').iterdir()}
    report = match(capsys, pairs, '-o', out)
    assert (report['matched'], report['kept']) == (2, 2)
    assert content(out) == whole
    assert {path.stem for path, time_ns in times.items() if path.stat().st_mtime_ns > time_ns} == {
        str(names[1]), str(names[2])}
    assert match(capsys, pairs, '-o', out, '--set', 'num_threads=1')['kept'] == 4


def test_a_run_that_was_stopped_comes_to_the_same_rows_as_a_whole_one(
        tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch) -> None:
    scene = RoadSequence(width=320, height=160, max_disparity=14, rate_hz=2, frames=5,
                         misalignment=Misalignment(vertical_offset_px=1.5))
    # The camera moves between the pairs that were matched and those that were not.
    folder = recorded.write_pairs(tmp_path / 'pairs', [
        (frame.left, np.roll(frame.right, 2 * (frame.index > 2), axis=0)) for frame in scene],
        [frame.stamp_ns for frame in scene])
    options = ['--set', 'row_correction=correct']
    match(capsys, folder, '-o', tmp_path / 'whole', *options)
    original, calls = SetMatching.match, []

    def stop(self: SetMatching, pair: Any) -> None:
        if len(calls) == 3:
            raise KeyboardInterrupt
        calls.append(pair.name)
        original(self, pair)

    with monkeypatch.context() as patch:
        patch.setattr(SetMatching, 'match', stop)
        assert main(['match', str(folder), '-o', str(tmp_path / 'out'), *options, *FAST]) == 130
    assert len(content(tmp_path / 'out')) == 3 * 5
    report = match(capsys, folder, '-o', tmp_path / 'out', *options)
    assert (report['matched'], report['kept']) == (2, 3)
    assert content(tmp_path / 'out') == content(tmp_path / 'whole')
    # By itself a pair is corrected by other rows.
    last = sorted((folder / 'left').iterdir())[-1].name
    for side in ('left', 'right'):
        (tmp_path / 'last' / side).mkdir(parents=True)
        shutil.copy(folder / side / last, tmp_path / 'last' / side)
    match(capsys, tmp_path / 'last', '-o', tmp_path / 'last_out', *options, '--calibration',
          folder / 'P_left.txt')
    name = f'disparity/{last.removesuffix(".png")}.pfm'
    assert content(tmp_path / 'last_out')[name] != content(tmp_path / 'out')[name]


def test_a_full_disk_leaves_whole_files_alone_and_the_next_run_the_rest(
        pairs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    match(capsys, pairs, '-o', tmp_path / 'whole')
    whole = content(tmp_path / 'whole')
    sizes = sorted(map(len, whole.values()))
    with file_size_limit(sizes[-1] - 1):
        assert 'File too large' in error_of(capsys, pairs, '-o', tmp_path / 'out')
    found = content(tmp_path / 'out')
    assert found
    assert found.items() < whole.items()
    match(capsys, pairs, '-o', tmp_path / 'out')
    assert content(tmp_path / 'out') == whole


@pytest.mark.parametrize(('change', 'words'), [
    (['--set', 'disparity_range=8'], 'disparity_range is 8, and was 16'),
    (['--write', 'disparity'], "depth is None, and was '.pfm'"),
    (['--calibration', 'P_left.txt'], '--calibration is ')])
def test_a_folder_of_other_settings_is_an_error(
        change: list[str], words: str, pairs: pathlib.Path, tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(pairs)
    match(capsys, pairs, '-o', tmp_path / 'out')
    before = content(tmp_path / 'out')
    assert main(['match', str(pairs), '-o', str(tmp_path / 'out'), *FAST, *change]) == 2
    error = capsys.readouterr().err
    assert f'has results of another run: {words}' in error
    assert content(tmp_path / 'out') == before


def test_a_calibration_of_other_content_is_another_setting(
        pairs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [pairs, '-o', tmp_path / 'out', '--calibration', pairs / 'P_left.txt']
    match(capsys, *options)
    text = (pairs / 'P_left.txt').read_text()
    (pairs / 'P_left.txt').write_text(text.replace('8.64', '8.74'))
    assert 'has results of another run' in error_of(capsys, *options)


def test_names_with_folders_keep_them(pairs: pathlib.Path, tmp_path: pathlib.Path,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    for day in ('monday', 'tuesday'):
        shutil.copytree(pairs, tmp_path / 'days' / day / 'drive')
    match(capsys, tmp_path / 'days', '-o', tmp_path / 'out', '--write', 'disparity.png')
    assert sorted(content(tmp_path / 'out')) == [
        f'disparity/{day}/drive/{name}.png' for day in ('monday', 'tuesday')
        for name in recorded.stamps()]


def test_a_pair_that_cannot_be_read_ends_the_run_or_is_left_out_and_counted(
        pairs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture) -> None:
    name = recorded.stamps()[1]
    (pairs / 'right' / f'{name}.png').write_bytes(b'no image')
    assert f'pair 2 ({name}): ' in error_of(capsys, pairs, '-o', tmp_path / 'out')
    report = match(capsys, pairs, '-o', tmp_path / 'out', '--skip-unreadable')
    assert (report['matched'], report['kept']) == (2, 1)
    assert [one['name'] for one in report['skipped']] == [str(name)]
    assert '1 of 4 pairs cannot be read and are left out' in caplog.text


def test_without_a_calibration_there_is_no_depth_and_that_is_said(
        pairs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side in ('left', 'right'):
        (pairs / f'P_{side}.txt').unlink()
    assert main(['match', str(pairs), '-o', str(tmp_path / 'out'), *FAST]) == 0
    said = capsys.readouterr()
    assert 'without a calibration there is no depth and no points' in said.err
    assert 'Wrote disparity: ' in said.out
    assert {name.partition('/')[0] for name in content(tmp_path / 'out')} == {
        'disparity', 'confidence', 'picture'}
    assert 'depth needs a calibration, and' in error_of(
        capsys, pairs, '-o', tmp_path / 'other', '--write', 'depth')


def test_issues_are_said_once_with_the_number_of_pairs(
        tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture) -> None:
    grey = np.full((64, 96), 128, np.uint8)
    folder = recorded.write_pairs(tmp_path / 'pairs', [(grey, grey)] * 3, ['a1', 'a2', 'a3'])
    report = match(capsys, folder, '-o', tmp_path / 'out')
    assert report['issues']
    assert report['issues'][0]['pairs'] == 3
    assert caplog.text.count('(3 of 3 pairs)') == len(report['issues'])


@pytest.mark.parametrize(('options', 'words'), [
    (['--truth', 'a.pfm', '-o', 'out'], '`stereo_bp evaluate` has the scores'),
    (['--depth', 'a.pfm', '-o', 'out'], '--depth is for two images: of a set --write says'),
    (['--repeat', '3', '-o', 'out'], 'each pair is matched once'), ([], 'with --output DIR'),
    (['-o', 'pairs/out'], 'which is read: name another folder'),
    (['-o', 'full'], 'full is not empty, and has no match.json'),
    (['-o', 'full/file'], 'is a file: name a folder'),
    (['-o', 'out', '--write', 'depth,depth'], 'each once'),
    (['-o', 'out', '--write', 'depth.jpg'], 'a file of depth must end in .pfm'),
    (['-o', 'out', '--write', 'cloud'], 'must be a list of disparity, depth, points')])
def test_options_that_do_not_fit_a_set_are_an_error(
        options: list[str], words: str, pairs: pathlib.Path, tmp_path: pathlib.Path,
        capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'full').mkdir()
    (tmp_path / 'full' / 'file').touch()
    assert words in error_of(capsys, 'pairs', *options)


@pytest.mark.parametrize(('options', 'words'), [
    (['--write', 'depth'], '--write is for a set of pairs'),
    (['--skip-unreadable'], '--skip-unreadable is for a set'),
    (['--left', '/a'], '--left is for a set'),
    (['--side-by-side', 'left_right'], 'exclude each other: one image holds both')])
def test_options_of_a_set_do_not_fit_two_images(
        options: list[str], words: str, pairs: pathlib.Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    images = [pairs / side / f'{recorded.stamps()[0]}.png' for side in ('left', 'right')]
    assert words in error_of(capsys, *images, *options)


def test_a_damaged_description_is_an_error(pairs: pathlib.Path, tmp_path: pathlib.Path,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    match(capsys, pairs, '-o', tmp_path / 'out')
    for text in ('', '[]', '{}', '{"settings": 3}', '[' * 100000):
        (tmp_path / 'out' / 'match.json').write_text(text)
        assert 'is not what an earlier run wrote' in error_of(capsys, pairs, '-o',
                                                              tmp_path / 'out')


def test_two_pairs_of_one_name_are_not_taken_for_one(
        pairs: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    from stereo_bp_ros.sources import pairs as sources
    original = sources.Sources.unread
    monkeypatch.setattr(sources.Sources, 'unread', lambda self, chunk: (
        one for _ in range(2) for one in original(self, chunk)))
    report = match(capsys, pairs, '-o', tmp_path / 'out')
    assert report['matched'] == 4
    assert '4 pairs have the name of an earlier one' in caplog.text
    files.read_pfm(tmp_path / 'out' / 'disparity' / f'{recorded.stamps()[0]}.pfm')
