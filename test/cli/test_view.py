"""What Rerun is sent: a recording read back, the viewer's process, and sentences in its place."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import http.server
import ipaddress
import json
import pathlib
import socket
import sys
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest

pytest.importorskip('rerun')
from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cli import viewer
from stereo_bp_ros.cli.main import build_parser, main
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.replay.viewing import LIVE, Sink, blueprint
from test.cli.rerun_files import curve, image, rows, value

W, H = 40, 24
FAST = ['--backend', 'cpu', '--set', 'stereo_algorithm=sad', '--set', 'disparity_range=16',
        '--set', 'num_threads=1']


def live(sink: Sink) -> dict[str, np.ndarray]:
    """A node's frame with all that is shown of it, and what it is made of."""
    left = np.tile(np.linspace(0, 255, W, dtype=np.uint8), (H, 1))
    disparity = np.tile(np.linspace(-1, 15, W, dtype=np.float32), (H, 1))
    points = np.zeros((H, W, 4), np.float32)
    points[..., 2] = 5
    points[..., 3] = np.uint32(200 << 16 | 100 << 8 | 50).view(np.float32)
    points[0, :, :3] = np.nan
    sink.lay_out({'front': LIVE})
    sink.at(3, 1_500_000_000)
    sink.left('front', left)
    sink.disparity('front', (disparity, disparity >= 0))
    sink.confidence('front', np.full((H, W), 0.5, np.float32))
    sink.camera('front', Calibration(50, 0.1, 20, 20, 12), W, H)
    sink.points('front', points)
    sink.numbers('front', 'latency_ms', {'total': 12.5, 'refine': 2.0})
    sink.numbers('front', 'dropped', 3)
    sink.numbers('front', 'rate_hz', 20.0)
    sink.text('front', 'WARN', 'images are late')
    sink.status('front', '| input | ok |')
    return {'left': left, 'disparity': disparity, 'points': points}


def test_a_recording_has_the_entities_shapes_and_colours_that_were_sent(tmp_path):
    path = tmp_path / 'run.rrd'
    with Sink(file=path) as sink:
        sent = live(sink)
    found = rows(path)
    assert {name for name in found if name.startswith('front/')} == {f'front/{name}' for name in (
        'camera', 'camera/left', 'disparity', 'confidence', 'points', 'latency_ms/total',
        'latency_ms/refine', 'dropped', 'rate_hz', 'status', 'diagnostics')}
    disparity, = found['front/disparity']
    assert (disparity['frame'], disparity['stamp']) == (3, 1_500_000_000)
    pixels, valid = image(disparity), sent['disparity'] >= 0
    assert pixels.shape == (H, W)
    np.testing.assert_allclose(pixels[valid], sent['disparity'][valid], atol=0.01)
    low, high = value(disparity, 'depth_range')
    assert high == 15
    assert pixels[~valid] == pytest.approx(low, abs=0.01)   # darker than any disparity
    assert low < 0
    left, = found['front/camera/left']
    decoded = cv2.imdecode(np.asarray(value(left, 'blob'), np.uint8), cv2.IMREAD_GRAYSCALE)
    assert np.abs(decoded.astype(int) - sent['left']).max() < 12
    points, = found['front/points']
    positions = next(cells for key, cells in points.items() if key.endswith(':positions'))
    colours = next(cells for key, cells in points.items() if key.endswith(':colors'))
    assert len(positions) == (H - 1) * W
    assert set(colours) == {200 << 24 | 100 << 16 | 50 << 8 | 255}
    camera, = found['front/camera']
    assert value(camera, 'image_from_camera') == [50, 0, 0, 0, 50, 0, 20, 12, 1]
    assert [value(row, 'scalars') for row in curve(found['front/latency_ms/total'])] == [12.5]
    assert value(found['front/diagnostics'][0], 'text') == 'images are late'


def test_images_and_points_are_thinned(tmp_path):
    path = tmp_path / 'run.rrd'
    with Sink(file=path, every=2, points_every=10) as sink:
        live(sink)
    found = rows(path)
    assert image(found['front/disparity'][0]).shape == (H // 2, W // 2)
    assert value(found['front/camera'][0], 'resolution') == [W / 2, H / 2]
    assert value(found['front/camera'][0], 'image_from_camera')[0] == 25
    positions = next(cells for key, cells in found['front/points'][0].items()
                     if key.endswith(':positions'))
    assert len(positions) == (H - 1) * W // 10


@pytest.fixture
def options() -> argparse.Namespace:
    """Of ``stereo_bp view`` at a port that is free."""
    with socket.socket() as free:
        free.bind((viewer.LOCAL, 0))
        return build_parser('view').parse_args(['view', '--web', str(free.getsockname()[1])])


#: Another address of this machine, at which nothing of ours may answer.
ELSEWHERE = '127.0.0.2'


def test_the_viewer_answers_on_this_machine_alone_and_its_page_may_not_tell_others(
        options, tmp_path, monkeypatch):
    for name in ('XDG_CONFIG_HOME', 'XDG_DATA_HOME'):
        monkeypatch.setenv(name, str(tmp_path))
    with viewer.Viewer(options) as shown, Sink(url=shown.url) as sink:
        live(sink)
        assert sink.flush()
        own = shown.folder
        assert not json.loads((own / 'rerun/analytics.json').read_text())['analytics_enabled']
        assert 'usage data' not in (own / 'log').read_text()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((ELSEWHERE, options.web), 5)
        connection = http.client.HTTPConnection(viewer.LOCAL, options.web, timeout=30)
        connection.request('GET', '/')
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (302, b'')
        place = answer.getheader('Location') or ''
        assert f'127.0.0.1%3A{options.web}%2Fproxy' in place
        connection = http.client.HTTPConnection(viewer.LOCAL, options.web, timeout=30)
        connection.request('GET', place)
        answer = connection.getresponse()
        assert answer.status == 200
        assert b'Rerun' in answer.read()
        allowed = dict(part.split(' ', 1) for part in (
            answer.getheader('Content-Security-Policy') or '').split('; '))
        assert allowed['connect-src'] == "'self'"
        assert allowed['default-src'] == "'self'"
        assert shown.is_open
    assert not shown.is_open
    assert not list(tmp_path.iterdir())         # the user's own choice is as it was
    assert not own.exists()


def test_a_viewer_that_answers_nonsense_leaves_no_traceback(options, capfd):
    with socket.socket() as inner:
        inner.bind((viewer.LOCAL, 0))
        inner.listen()
        with served(options, inner.getsockname(), inner.getsockname()):
            asked = http.client.HTTPConnection(viewer.LOCAL, options.web, timeout=10)
            asked.request('GET', '/nonsense')
            answers, _ = inner.accept()
            with answers:
                answers.recv(1000)
                answers.sendall(b'nonsense')
            with pytest.raises(http.client.RemoteDisconnected):
                asked.getresponse()
    assert capfd.readouterr().err == ''


@contextlib.contextmanager
def served(options: argparse.Namespace, pages: viewer.Place, data: viewer.Place
           ) -> Iterator[None]:
    """The viewer's page, with others behind it than the viewer's program."""
    page = viewer._Page(options.host, options.web, pages, data)
    thread = threading.Thread(target=page.serve_forever)
    thread.start()
    try:
        yield
    finally:
        page.shutdown()
        page.server_close()
        thread.join()


#: What a browser asks the viewer's data for.
FRAMES = '/rerun.sdk_comms.v1alpha1.MessageProxyService/ReadMessages'


def asked(options: argparse.Namespace, method: str, **headers: str | None) -> tuple[int, bytes]:
    """Status, and what comes first, of a request with these headers and no other ones."""
    connection = http.client.HTTPConnection(viewer.LOCAL, options.web, timeout=30)
    connection.putrequest(method, FRAMES if method == 'POST' else '/', skip_host=True)
    for name, text in {'Content-Type': 'application/grpc-web+proto', 'Content-Length': '5',
                       **headers}.items():
        if text is not None:
            connection.putheader(name, text)
    connection.endheaders(bytes(5))
    answer = connection.getresponse()
    with contextlib.closing(connection):
        return answer.status, answer.read1(100)


def test_pages_of_other_sites_get_neither_page_nor_frames(options):
    """Another site may lead its own name here, and then is no other site to a browser."""
    port = options.web
    with viewer.Viewer(options) as shown, Sink(url=shown.url) as sink:
        live(sink)
        assert sink.flush()
        own = f'127.0.0.1:{port}'
        for host, origin in ((own, None), (own, f'http://{own}'),
                             (f'localhost:{port}', f'http://localhost:{port}'),
                             ('localhost:8080', 'http://localhost:8080'),     # of a tunnel
                             ('LocalHost', 'http://localhost')):
            assert asked(options, 'GET', Host=host, Origin=origin)[0] == 302
            status, content = asked(options, 'POST', Host=host, Origin=origin)
            assert (status, len(content)) == (200, 100)
        for method in ('GET', 'POST', 'OPTIONS', 'HEAD'):
            for host in (f'evil.example:{port}', f'127.0.0.1.evil.example:{port}', None, '',
                         f'127.0.0.2:{port}', f'localhost.evil.example:{port}', f'{own}:1',
                         f'evil@{own}', '[::1]'):
                assert asked(options, method, Host=host)[0] == 421, host
            for origin in ('http://evil.example', f'http://evil.example:{port}', 'null',
                           f'http://{own}.evil.example', f'https://{own}', f'http://{own}0',
                           'http://127.0.0.1', f'http://localhost:{port}', ''):
                assert asked(options, method, Host=own, Origin=origin)[0] == 403, origin
        # Nothing listens where every page of a browser finds it.
        address = urlsplit(shown.url).hostname
        assert address != viewer.LOCAL
        listening = {line.split()[1] for line in pathlib.Path(
            '/proc/net/tcp').read_text().splitlines()[1:] if line.split()[3] == '0A'}
        of_viewer = {int.from_bytes(bytes.fromhex(one.split(':')[0]), 'little')
                     for one in listening
                     if int(one.split(':')[1], 16) == urlsplit(shown.url).port}
        assert int(ipaddress.ip_address(address)) in of_viewer
        assert not of_viewer & {0, int(ipaddress.ip_address(viewer.LOCAL))}


def test_frames_that_are_too_large_to_be_asked_for_are_refused(options):
    with served(options, (viewer.LOCAL, 1), (viewer.LOCAL, 1)):
        for length in ('-1', '9' * 8, 'x', None):
            assert asked(options, 'POST', **{
                'Host': f'127.0.0.1:{options.web}', 'Content-Length': length})[0] == 413


@pytest.mark.parametrize(('host', 'address', 'answered', 'refused'), [
    ('127.0.0.1', '127.0.0.1', ('localhost', '127.0.0.1'), ('robot', '192.0.2.7')),
    ('192.0.2.7', '192.0.2.7', ('192.0.2.7', 'robot', 'robot.local', 'robot.example.org'),
     ('localhost', '192.0.2.8', 'robot.example')),
    ('Robot.example.net', '192.0.2.7', ('robot.example.net', '192.0.2.7'), ('example.net',)),
    ('0.0.0.0', '0.0.0.0', ('localhost', 'robot', '192.0.2.8', '10.0.0.1'),
     ('evil.example', '10.0.0.1.evil.example'))])
def test_what_listens_elsewhere_answers_by_the_names_of_its_machine(
        options, monkeypatch, host, address, answered, refused):
    monkeypatch.setattr(socket, 'gethostname', lambda: 'robot')
    monkeypatch.setattr(socket, 'getfqdn', lambda *_: 'robot.example.org')
    monkeypatch.setattr(viewer._Page, 'server_address', (address, 1), raising=False)
    monkeypatch.setattr(http.server.HTTPServer, '__init__', lambda *_: None)
    page = viewer._Page(host, options.web, (viewer.LOCAL, 1), (viewer.LOCAL, 1))
    assert [name for name in answered if not page.is_own(f'{name}:{options.web}')] == []
    assert [name for name in refused if page.is_own(f'{name}:{options.web}')] == []


def never_ready(options, monkeypatch) -> str:
    """What a viewer that starts and never answers raises."""
    with monkeypatch.context() as patch:
        patch.setattr(viewer, 'START_LIMIT_S', 0.0)
        with pytest.raises(StereoError) as caught:
            viewer.Viewer(options).__enter__()
    return str(caught.value)


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence in place of a view."""
    assert main(arguments) == 2
    text = capsys.readouterr().err.strip()
    assert text.startswith('stereo_bp ')
    assert '\n' not in text
    return text


def test_a_view_that_cannot_be_is_one_sentence(options, tmp_path, monkeypatch, capsys):
    for name in ('DISPLAY', 'WAYLAND_DISPLAY'):
        monkeypatch.delenv(name, raising=False)
    assert 'there is no display' in said(['view'], capsys)
    with socket.socket() as taken:
        taken.bind((viewer.LOCAL, options.web))
        taken.listen()
        assert f'port {options.web} of 127.0.0.1 cannot be served' in said(
            ['view', '--web', str(options.web)], capsys)
    assert 'does not answer at 127.' in never_ready(options, monkeypatch)
    assert 'has to end in .rrd' in said(['view', '--save', str(tmp_path / 'run.bag')], capsys)
    assert not list(tmp_path.iterdir())
    assert 'nothing can be served at ' in said(['view', '--web', '9090', '--host', '192.0.2.1'],
                                               capsys)
    assert 'there is no recording' in said(['view', str(tmp_path / 'run.rrd'), '--web', '1'],
                                           capsys)


def test_without_rerun_the_remedy_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, 'rerun', None)
    text = said(['view', '--save', str(tmp_path / 'run.rrd')], capsys)
    assert "the extra 'view'" in text
    assert 'Python 3.11' in text


def test_the_names_of_cameras_are_tabs():
    live_tabs = blueprint({'front': LIVE, 'rear': LIVE}).root_container
    assert [str(tab.name) for tab in live_tabs.contents] == ['front', 'rear']


def test_a_recording_is_a_file_like_any_output(tmp_path, capsys):
    assert 'there is no folder' in said(
        ['view', '--save', str(pathlib.Path(tmp_path, 'none', 'run.rrd'))], capsys)


def test_a_display_that_cannot_be_opened_is_a_sentence(monkeypatch, tmp_path, capsys):
    path = tmp_path / 'run.rrd'
    with Sink(file=path) as sink:
        live(sink)
    monkeypatch.delenv('WAYLAND_DISPLAY', raising=False)
    monkeypatch.setenv('DISPLAY', ':4711')
    assert main(['view', str(path)]) == 2
    assert 'stereo_bp view: the viewer has ended: ' in capsys.readouterr().err
