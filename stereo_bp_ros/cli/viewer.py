"""Options that show what a verb computes, and the viewer behind them: Rerun's own program.

It is a process of its own, which listens on 127.0.0.1 unless --host says otherwise and sends no
usage data. Its page for browsers would send them, and cannot be told not to: the page is handed on
with a policy that forbids the browser to connect to others.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import errno
import http.client
import http.server
import importlib.util
import json
import os
import pathlib
import re
import shutil
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
          "connect-src 'self' http://{data}")
"""What a browser may do for the viewer's page: connect to the data of this viewer alone."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """--view, --web, --save and what belongs to them."""
    group = parser.add_argument_group('to see it in Rerun (extra view)')
    group.add_argument('--view', action='store_true', help='open the viewer in a window')
    group.add_argument('--web', type=shared.whole(1, 65534), metavar='PORT',
                       help='serve the view to a browser at this port, and its data at the next')
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


def is_wanted(options: argparse.Namespace) -> bool:
    """Whether somebody asks to see anything."""
    return bool(options.view or options.web or options.save)


@contextlib.contextmanager
def opened(options: argparse.Namespace, *, waits: bool = True) -> Iterator[Sink | None]:
    """What frames are sent to, and the viewer that shows them; None: nobody asks to see any.

    :param waits: leaving it waits until the viewer is closed, or Ctrl-C; not after an error.
    :raises StereoError, ValueError: there is no Rerun, no display or a port is taken.
    """
    if not is_wanted(options):
        yield None
        return
    has_viewer = options.view or options.web
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
        self._address = LOCAL if self._web is None else self._host
        self._port = _free_port(self._address, 0 if self._web is None else self._web + 1)
        self.url = f'rerun+http://{self._name}:{self._port}/proxy'

    @property
    def _name(self) -> str:
        """By which a browser knows the host."""
        return socket.gethostname() if self._address in ('0.0.0.0', '::') else self._address

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
            page = _Page(self._address, self._web, inner, self._name, self._port)
            stack.callback(page.server_close)
            ports.append(inner)
            command += ['--serve-web', '--web-viewer-port', str(inner), '--cors-allow-origin',
                        f'http://{self._name}:{self._web}']
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
            say(f'the view is at http://{self._name}:{self._web}')

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
                    (self._name, port), 1):
                return
            time.sleep(0.05)
        raise StereoError(f'the viewer does not answer at {self._name}:{port} within '
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


def _free_port(host: str, port: int = 0) -> int:
    """This port, or any that is free.

    :raises StereoError: it is taken, or the address is not this machine's.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise _taken(host, port, error) from error
        return int(probe.getsockname()[1])


def _taken(host: str, port: int, error: OSError) -> StereoError:
    remedy = {errno.EADDRINUSE: 'choose another, or end who has it',
              errno.EACCES: 'choose one above 1023'}.get(error.errno or 0)
    if remedy is None:
        return StereoError(f'nothing can be served at {shown(host)} ({error.strerror}): --host '
                           'takes an address of this machine')
    return StereoError(f'port {port} of {host} cannot be served ({error.strerror}): --web takes '
                       f'its port and the next one; {remedy}')


class _Page(http.server.ThreadingHTTPServer):
    """Hands the viewer's page on with ``POLICY``, and has it open the data of this viewer."""

    daemon_threads = True

    def __init__(self, host: str, port: int, inner: int, name: str, data_port: int) -> None:
        self.inner = (name, inner)
        data = f'{name}:{data_port}'
        self.policy = POLICY.format(data=data)
        self.home = '/?' + urllib.parse.urlencode({
            'url': f'rerun+http://{data}/proxy', 'hide_welcome_screen': 1})
        try:
            super().__init__((host, port), _Request)
        except OSError as error:
            raise _taken(host, port, error) from error


class _Request(http.server.BaseHTTPRequestHandler):
    server: _Page

    def do_GET(self) -> None:
        if self.path == '/':
            self.send_response(302)
            self.send_header('Location', self.server.home)
            self.end_headers()
            return
        inner = http.client.HTTPConnection(*self.server.inner, timeout=START_LIMIT_S)
        with contextlib.closing(inner), contextlib.suppress(OSError, http.client.HTTPException):
            inner.request('GET', self.path, headers={
                'Accept-Encoding': self.headers.get('Accept-Encoding', 'identity')})
            answer = inner.getresponse()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ('connection', 'transfer-encoding', 'date', 'server'):
                    self.send_header(name, value)
            self.send_header('Content-Security-Policy', self.server.policy)
            self.end_headers()
            shutil.copyfileobj(answer, self.wfile)

    def log_message(self, *_: object) -> None:
        """Say nothing."""
