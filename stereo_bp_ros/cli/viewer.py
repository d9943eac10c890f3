"""Options of ``stereo_bp view``, and the viewer behind them: Rerun's own program.

It is a process of its own, which sends no usage data and answers whoever finds it, by any name. So
it listens on an address of this machine that is chosen at random, and browsers get its page and
data at --web, which refuses pages of other sites. The page would send usage data, and has no
option against it: it is served with a policy that forbids the browser to connect to others.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import http.client
import http.server
import importlib.util
import ipaddress
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.cli.outputs import check_files
from stereo_bp_ros.errors import StereoError, shown

if TYPE_CHECKING:
    from stereo_bp_ros.replay.viewing import Sink

LOCAL = '127.0.0.1'

#: Seconds that the viewer's process may take to start.
START_LIMIT_S = 30.0

#: Of <sys/prctl.h>.
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None)

POLICY = ("default-src 'self'; script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; "
          "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; worker-src 'self' blob:; "
          "connect-src 'self'")
"""What a browser may do for the viewer's page: connect to this viewer alone."""

#: Address that stands for all addresses of this machine.
EVERY = '0.0.0.0'

Place = tuple[str, int]
"""Address and port."""

#: Headers that say who speaks to whom, and how: those of the other connection are its own.
OF_ONE_CONNECTION = {'connection', 'cookie', 'date', 'host', 'keep-alive', 'origin', 'referer',
                     'server', 'transfer-encoding'}

#: Of a request for frames, which has a few bytes.
MAX_REQUEST_BYTES = 2**20

PART_BYTES = 2**16


def add_options(parser: argparse.ArgumentParser) -> None:
    """--view, --web, --save and what belongs to them."""
    group = parser.add_argument_group('to see it in Rerun (extra view)')
    group.add_argument('--view', action='store_true',
                       help='open the viewer in a window (default where neither --web nor --save '
                            'is given)')
    group.add_argument('--web', type=shared.whole(1, 65535), metavar='PORT',
                       help='serve the view to a browser at this port')
    group.add_argument('--save', type=pathlib.Path, metavar='FILE',
                       help='record the view, .rrd: stereo_bp view FILE opens it')
    group.add_argument('--host', default=LOCAL, metavar='ADDRESS',
                       help='address of this machine that --web listens on (default 127.0.0.1: '
                            'this machine alone)')
    group.add_argument('--memory-limit', type=_memory, default='1GiB', metavar='SIZE',
                       help='of the viewer, e.g. 500MB: older frames are dropped (default '
                            '1GiB)')
    group.add_argument('--thin', type=shared.whole(1, 64), default=1, metavar='N',
                       help='show each n-th row and column of images (default 1)')
    group.add_argument('--thin-points', type=shared.whole(1, 10000), default=4, metavar='N',
                       help='show each n-th point (default 4)')


def _memory(text: str) -> str:
    if not re.fullmatch(r'[0-9]{1,6}(\.[0-9]{1,3})?([kMG]i?B|%)', text):
        raise argparse.ArgumentTypeError(f'{shown(text)} is not a size like 500MB, 2GiB or 20%')
    return text


def say(text: str) -> None:
    """Where the view is, and what was shown: on standard error, which may be a terminal."""
    shared.say(text, file=sys.stderr)


@contextlib.contextmanager
def opened(options: argparse.Namespace, *, waits: bool = True) -> Iterator[Sink]:
    """What frames are sent to, and the viewer that shows them.

    :param waits: leaving it waits until the viewer is closed, or Ctrl-C; not after an error.
    :raises StereoError, ValueError: there is no Rerun, no display or a port is taken.
    """
    has_viewer = options.view or options.web or not options.save
    if options.save:
        if options.save.suffix != '.rrd':
            raise ValueError(f'--save {shown(str(options.save))} has to end in .rrd')
        check_files({'--save': options.save})
    with (Viewer(options) if has_viewer else contextlib.nullcontext()) as viewer:
        shared.require('rerun')
        from stereo_bp_ros.replay.viewing import Sink
        with Sink(file=options.save, url=viewer.url if viewer else '', every=options.thin,
                  points_every=options.thin_points,
                  is_open=(lambda: viewer.is_open) if viewer else (lambda: True)) as sink:
            yield sink
        if options.save and options.save.is_file():
            say(f'Wrote view: {options.save}')
        if viewer and waits:
            viewer.wait()
        elif viewer:
            viewer.check()


def show_file(options: argparse.Namespace, recording: pathlib.Path) -> None:
    """Open a recording, and wait until the viewer is closed or for Ctrl-C."""
    if not recording.is_file():
        raise ValueError(f'there is no recording {shown(str(recording))}')
    with Viewer(options, recording) as viewer:
        viewer.wait()


class Viewer:
    """The process of the viewer, in a window or for browsers; a context manager.

    :param recording: a file to open.
    url: where frames are sent to.
    folder: its configuration and log, as long as it runs.
    """

    def __init__(self, options: argparse.Namespace, recording: pathlib.Path | None = None) -> None:
        shared.require('rerun')
        self._limit, self._recording = options.memory_limit, recording
        self._host = options.host
        self._web: int | None = options.web
        if self._web is None and not (os.environ.get('DISPLAY')
                                      or os.environ.get('WAYLAND_DISPLAY')):
            raise StereoError('there is no display (DISPLAY, WAYLAND_DISPLAY) for the viewer: '
                              '--web PORT serves it to a browser, --save FILE records it')
        # A page of another site can reach every port of 127.0.0.1, and try them all.
        self._address = '127.' + '.'.join(str(1 + secrets.randbelow(254)) for _ in range(3))
        self._port = _free_port(self._address)
        self.url = f'rerun+http://{self._address}:{self._port}/proxy'

    def __enter__(self) -> Viewer:
        with contextlib.ExitStack() as stack:
            self.folder = pathlib.Path(stack.enter_context(
                tempfile.TemporaryDirectory(prefix='stereo_bp_view_')))
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: contextlib.ExitStack) -> None:
        found = importlib.util.find_spec('rerun_cli')
        if found is None or found.origin is None:
            raise StereoError('rerun-sdk is installed without its viewer (rerun_cli)')
        program = str(pathlib.Path(found.origin).parent / 'rerun')
        self._refuse_analytics()
        environment = {**os.environ, 'XDG_CONFIG_HOME': str(self.folder)}
        log = stack.enter_context((self.folder / 'log').open('w', encoding='utf-8'))
        command = [program, *([str(self._recording)] if self._recording else []),
                   '--bind', self._address, '--port', str(self._port),
                   '--memory-limit', self._limit, '--server-memory-limit', self._limit]
        page, ports = None, [self._port]
        if self._web is not None:
            inner = _free_port(self._address)
            page = _Page(self._host, self._web, (self._address, inner),
                         (self._address, self._port))
            stack.callback(page.server_close)
            ports.append(inner)
            command += ['--serve-web', '--web-viewer-port', str(inner)]
        # In a group of its own: Ctrl-C is this process's to judge. It ends with this process.
        self._process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            start_new_session=True, preexec_fn=lambda: _libc.prctl(PR_SET_PDEATHSIG,
                                                                   signal.SIGTERM))
        stack.callback(self._stop)
        for port in ports:
            self._wait_until_ready(port)
        if page:
            threading.Thread(target=page.serve_forever, daemon=True, name='page').start()
            stack.callback(page.shutdown)
            name = socket.gethostname() if self._host == EVERY else self._host
            say(f'the view is at http://{name}:{self._web}')

    def _refuse_analytics(self) -> None:
        """As ``rerun analytics disable``, for this process alone; the command counts itself."""
        config = self.folder / 'rerun/analytics.json'
        config.parent.mkdir()
        config.write_text(json.dumps({
            'analytics_enabled': False, 'analytics_id': '', 'metadata': {},
            'config_file_path': str(config), 'data_dir_path': str(self.folder / 'analytics')}),
            encoding='utf-8')

    def _wait_until_ready(self, port: int) -> None:
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise self._failure()
            with contextlib.suppress(OSError), socket.create_connection(
                    (self._address, port), 1):
                return
            time.sleep(0.05)
        raise StereoError(f'the viewer does not answer at {self._address}:{port} within '
                          f'{START_LIMIT_S:g} s')

    def _failure(self) -> StereoError:
        text = (self.folder / 'log').read_text('utf-8', 'replace')
        lines = re.sub(r'\x1b\[[0-9;]*m', '', text).strip().splitlines()
        return StereoError('the viewer has ended: ' + (lines[-1] if lines else 'it says nothing'))

    def check(self) -> None:
        """Reject a viewer that has ended by an error, for instance without a display.

        :raises StereoError: names what it says.
        """
        if self._process.poll():
            raise self._failure()

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it."""
        return self._process.poll() is None

    def wait(self) -> None:
        """Until the viewer is closed, or Ctrl-C."""
        say('the view stays until Ctrl-C' if self._web is not None else
                    'the view stays until its window is closed, or Ctrl-C')
        with contextlib.suppress(KeyboardInterrupt):
            self._process.wait()
            self.check()


def _free_port(address: str) -> int:
    """Any that is free."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def _taken(host: str, port: int, error: OSError) -> StereoError:
    remedy = {errno.EADDRINUSE: 'choose another, or stop the process that uses it',
              errno.EACCES: 'choose one above 1023'}.get(error.errno or 0)
    if remedy is None:
        return StereoError(f'nothing can be served at {shown(host)} ({error.strerror}): --host '
                           'takes an address of this machine')
    return StereoError(f'port {port} of {host} cannot be served ({error.strerror}): {remedy}')


class _Page(http.server.ThreadingHTTPServer):
    """Hands the viewer's page on with ``POLICY``, and its data: the one way in for browsers.

    A page of another site may give its own name the address of this machine. So only requests by
    a name of this machine are answered, and only those of this page itself.

    :param host: address or name of this machine to listen on.
    :param pages: where the viewer's page is, address and port.
    :param data: where its data are.
    """

    daemon_threads = True

    def __init__(self, host: str, port: int, pages: Place, data: Place) -> None:
        self.pages, self.data = pages, data
        try:
            super().__init__((host, port), _Request)
        except OSError as error:
            raise _taken(host, port, error) from error
        self._names = own_names(host, str(self.server_address[0]))

    def is_own(self, host: str) -> bool:
        """Whether the header Host has a name that is answered; a tunnel may have another port."""
        found = re.fullmatch(r'([^:]+)(:[0-9]{1,5})?', host)
        if not found:
            return False
        with contextlib.suppress(ValueError):
            # An address is no name that another site could lead here.
            if EVERY in self._names and ipaddress.IPv4Address(found[1]):
                return True
        return found[1] in self._names


def own_names(host: str, address: str) -> set[str]:
    """Names by which a browser may ask for what listens on an address of this machine.

    :param host: what the user calls the address.
    """
    names = {host.lower(), address}
    if address == EVERY or ipaddress.ip_address(address).is_loopback:
        names.add('localhost')
    if not ipaddress.ip_address(address).is_loopback:
        own = socket.gethostname().lower()
        names |= {own, f'{own}.local', socket.getfqdn().lower()}
    return names


class _Request(http.server.BaseHTTPRequestHandler):
    server: _Page

    def parse_request(self) -> bool:
        """Refuse what is not asked for by the page itself, whatever the method."""
        if not super().parse_request():
            return False
        hosts = [one.lower() for one in self.headers.get_all('Host', ())]
        origins = [one.lower() for one in self.headers.get_all('Origin', ())]
        if len(hosts) != 1 or not self.server.is_own(hosts[0]):
            self.send_error(http.HTTPStatus.MISDIRECTED_REQUEST, 'not a name of this view')
        elif set(origins) - {f'http://{hosts[0]}'}:
            self.send_error(http.HTTPStatus.FORBIDDEN, 'not the page of this view')
        else:
            self._host = hosts[0]
            return True
        return False

    def do_GET(self) -> None:
        if self.path != '/':
            self._hand_on(self.server.pages, timeout_s=START_LIMIT_S)
            return
        host = self._host if ':' in self._host else f'{self._host}:80'
        self.send_response(http.HTTPStatus.FOUND)
        self.send_header('Location', '/?' + urllib.parse.urlencode({
            'url': f'rerun+http://{host}/proxy', 'hide_welcome_screen': 1}))
        self.end_headers()

    def do_POST(self) -> None:
        """Frames, which come as long as there are any."""
        length = self.headers.get('Content-Length', '')
        if not re.fullmatch('[0-9]{1,9}', length) or int(length) > MAX_REQUEST_BYTES:
            self.send_error(http.HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        self._hand_on(self.server.data, self.rfile.read(int(length)))

    def _hand_on(self, place: Place, body: bytes | None = None, *,
                 timeout_s: float | None = None) -> None:
        inner = http.client.HTTPConnection(*place, timeout=timeout_s)
        with contextlib.closing(inner), contextlib.suppress(OSError, http.client.HTTPException):
            inner.request(self.command, self.path, body, {
                name: value for name, value in self.headers.items()
                if name.lower() not in OF_ONE_CONNECTION | {'content-length'}})
            answer = inner.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in OF_ONE_CONNECTION:
                    self.send_header(name, value)
            self.send_header('Content-Security-Policy', POLICY)
            self.end_headers()
            while part := answer.read1(PART_BYTES):
                self.wfile.write(part)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
