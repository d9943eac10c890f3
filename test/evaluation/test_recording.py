"""Recordings of an evaluation: topics, definitions, times and pictures, read back by another
reader."""

from __future__ import annotations

import json
import re

import cv2
import numpy as np
import pytest

pytest.importorskip('numba')
pytest.importorskip('rosbags')
from rosbags.highlevel import AnyReader

from stereo_bp_ros import Calibration, MatcherConfig, files, pictures
from stereo_bp_ros.cli.main import main
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.evaluation.recording import STEP_NS, Recording, numbers
from stereo_bp_ros.evaluation.runs import Evaluation, Method
from stereo_bp_ros.evaluation.scenes.sequence import RoadSequence
from stereo_bp_ros.evaluation.sources import Input, Pair, Sources
from test.cases import every

SETTINGS = {'disparity_range': 16, 'levels': 3, 'iterations': 4, 'backend': 'cpu'}
PICTURES = ('/left/image_rect', '/disparity_color', '/evaluation/truth', '/evaluation/error',
            '/evaluation/confidence')


@pytest.fixture(scope='module')
def evaluation():
    with Evaluation({'own': MatcherConfig(**SETTINGS)}, ['bm'],
                    Method(repeat=2, consistency=True)) as found:
        yield found


@pytest.fixture(scope='module')
def street(tmp_path_factory, evaluation) -> tuple[list[Pair], list, dict[str, list]]:
    """Pairs of a rendered street, what was judged, and what was recorded."""
    drawn = RoadSequence(width=96, height=64, max_disparity=12, frames=3)
    pairs = list(Sources([Input('street', drawn)]).pairs())
    folder = tmp_path_factory.mktemp('street')
    judged, found = recorded(folder / 'x.mcap', evaluation, pairs)
    assert [path.name for path in folder.iterdir()] == ['x.mcap']       # no folder beside it
    return pairs, judged, found


def recorded(path, evaluation, pairs) -> tuple[list, dict[str, list]]:
    """What was judged, and the messages of the file by topic: (time, message)."""
    with Recording(path) as recording:
        judged = []
        for place, pair in enumerate(pairs):
            judged.append(evaluation.judge(pair))
            recording.collect(place, evaluation, judged[-1])
    return judged, messages(path)


def messages(path) -> dict[str, list]:
    # No default types: the definitions are those in the file.
    with AnyReader([path]) as reader:
        assert every(one.msgdef.data for one in reader.connections)
        found: dict[str, list] = {}
        for connection, time_ns, data in reader.messages():
            found.setdefault(connection.topic, []).append(
                (time_ns, reader.deserialize(data, connection.msgtype)))
    return found


def picture(message) -> np.ndarray:
    return cv2.imdecode(np.asarray(message.data), cv2.IMREAD_COLOR)


def pair(name: str, textured_pair, stamp_ns=None, **known) -> Pair:
    return Pair(name, *textured_pair(64, 48, 4), stamp_ns=stamp_ns, **known)


def test_a_street_is_recorded_with_pictures_numbers_and_stamps(street):
    pairs, judged, found = street
    stamps = [one.stamp_ns for one in pairs]
    assert len(stamps) == 3
    for topic in (*PICTURES, '/left/camera_info', '/latency'):
        assert [time for time, _ in found[topic]] == stamps
        assert [one.header.stamp.sec * 10**9 + one.header.stamp.nanosec
                for _, one in found[topic]] == stamps
    for topic in PICTURES:
        assert every(picture(one).shape == (64, 96, 3) for _, one in found[topic])
        assert every(len(one.data) < 64 * 96 * 3 / 2 for _, one in found[topic])
    last = judged[-1]
    frame = last.frame
    np.testing.assert_array_equal(picture(found['/evaluation/error'][-1][1]), pictures.
                                  error_picture(frame.disparity, last.pair.truth, frame.valid))
    colours = pictures.disparity_picture(frame.disparity, frame.valid, frame.min_disparity,
                                         frame.max_disparity)
    jpeg = picture(found['/disparity_color'][-1][1]).astype(int)
    assert np.abs(jpeg - colours).mean() < 20
    assert [one.data for _, one in found['/evaluation/name']] == ['000000', '000001', '000002']
    info = found['/left/camera_info'][0][1]
    assert info.p[0] == pairs[0].calibration.focal_px
    assert (info.width, info.height) == (96, 64)
    for key, value in numbers(last.result.to_dict()):
        assert found[f'/evaluation/{key}'][-1][1].data == value
    figures = last.result.matchers['own']
    values = {one.key: float(one.value) for one in found['/latency'][-1][1].status[0].values}
    assert values['total'] == pytest.approx(figures.times_ms[-1], abs=1e-3)
    assert values['messages'] == pytest.approx(figures.stages_ms['messages'], abs=1e-3)
    assert found['/evaluation/against/bm/score/bad_3_known'][-1][1].data == (
        last.result.matchers['bm'].frame.whole.published.bad_known(3.0))
    assert len(found['/evaluation/consistency/confirmed']) == 3
    assert every(re.fullmatch(r'(/[A-Za-z_]\w*)+', topic) for topic in found)     # names of ROS


def test_pairs_without_a_later_stamp_come_a_second_after_each_other(tmp_path, evaluation,
                                                                    textured_pair):
    stamps = [None, 5 * STEP_NS + 7, 5 * STEP_NS + 7, 2 * STEP_NS, 9 * STEP_NS]
    pairs = [pair(str(number), textured_pair, stamp) for number, stamp in enumerate(stamps)]
    pairs[1] = pair('1', textured_pair, stamps[1], calibration=Calibration(9, 1, 0, 0, 0),
                    truth=np.full((48, 64), 4, np.float32))
    _, found = recorded(tmp_path / 'x.mcap', evaluation, pairs)
    assert [time for time, _ in found['/left/image_rect']] == [
        0, 5 * STEP_NS + 7, 6 * STEP_NS + 7, 7 * STEP_NS + 7, 9 * STEP_NS]
    # What a pair does not have is not recorded.
    for topics, count in (
            (('/left/image_rect', '/disparity_color', '/evaluation/confidence',
              '/evaluation/score/coverage'), 5),
            (('/left/camera_info', '/evaluation/truth', '/evaluation/error',
              '/evaluation/score/mae', '/evaluation/depth/mean_m'), 1),
            (('/evaluation/device_ms',), 0)):
        assert {len(found.get(topic, ())) for topic in topics} == {count}


def test_the_layout_shows_topics_of_a_recording_in_their_types(street, repository):
    _, _, found = street
    types = {topic: one[0][1].__msgtype__ for topic, one in found.items()}
    layout = json.loads((repository / 'config/stereo_bp_evaluation.foxglove.json').read_text())
    for panel in layout['configById'].values():
        mode = panel.get('imageMode', {})
        for key, kind in (('imageTopic', 'CompressedImage'), ('calibrationTopic', 'CameraInfo')):
            if key in mode:
                assert types[mode[key]] == f'sensor_msgs/msg/{kind}'
        for one in panel.get('paths', ()):
            topic, _, field = one['value'].partition('.')
            assert (types[topic], field) == ('std_msgs/msg/Float64', 'data')
    placed = re.findall(r'"((?:Image|Plot)![a-z]+)"', json.dumps(layout['layout']))
    assert sorted(placed) == sorted(layout['configById'])
    # The layout of a node shows what it has under the same names.
    node = json.loads((repository / 'config/stereo_bp.foxglove.json').read_text())['configById']
    for name in ('Image!left', 'Image!disparity'):
        assert set(node[name]['imageMode'].values()) <= types.keys()
    assert every(one['value'].partition('.')[0] == '/latency'
                 for one in node['Plot!latency']['paths'])


def test_a_recording_is_whole_or_not_there(tmp_path, evaluation, textured_pair):
    path = tmp_path / 'x.mcap'
    with pytest.raises(StereoError, match='does not fit a message'):
        recorded(path, evaluation, [pair('a', textured_pair),
                                    pair('b', textured_pair, 2**31 * 10**9)])
    assert list(tmp_path.iterdir()) == []
    path.write_text('precious')
    with pytest.raises(StereoError, match='recordings are not overwritten'):
        Recording(path)
    assert path.read_text() == 'precious'
    with pytest.raises(StereoError, match='cannot be written'), Recording(tmp_path / 'no/x.mcap'):
        pass


@pytest.fixture
def folder(tmp_path, textured_pair):
    for name in ('one', 'two'):
        (tmp_path / 'sets' / name).mkdir(parents=True)
        for side, image in zip(('left', 'right'), textured_pair(64, 48, 4), strict=True):
            files.write_image(tmp_path / 'sets' / name / f'{side}.png', image)
    return tmp_path / 'sets'


def test_evaluate_writes_a_recording(folder, tmp_path, capsys):
    path = tmp_path / 'x.mcap'
    arguments = ['evaluate', str(folder), '--repeat', '1', '--json', '--mcap', str(path), *(
        word for name, value in SETTINGS.items() for word in ('--set', f'{name}={value}'))]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    found = messages(path)
    assert [one.data for _, one in found['/evaluation/score/coverage']] == [
        one['score']['coverage'] for one in report['pairs']]
    assert main(arguments) == 2
    assert 'not overwritten' in capsys.readouterr().err


@pytest.mark.parametrize(('arguments', 'words'), [
    (['--mcap', 'x.bag'], 'has to end in .mcap'), (['--mcap', 'no/such/x.mcap'], 'no folder'),
    (['--mcap', 'x.mcap', '--workers', '2'], 'exclude each other')])
def test_what_does_not_go_with_a_recording_is_one_line(folder, capsys, monkeypatch, arguments,
                                                       words):
    monkeypatch.chdir(folder.parent)
    assert main(['evaluate', str(folder), *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count('\n') == 1
    assert sorted(one.name for one in folder.parent.iterdir()) == ['sets']
