"""Chromium without a window, driven over its pipe: pages as people see them, and their errors."""

from __future__ import annotations

import base64
import itertools
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

#: Debian's and Ubuntu's names of the browser, and Google's.
NAMES = ('chromium', 'chromium-browser', 'google-chrome')

#: It speaks to nobody but the test.
OPTIONS = ('--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
           '--disable-background-networking', '--disable-component-update', '--disable-sync',
           '--disable-dev-shm-usage', '--hide-scrollbars', '--remote-debugging-pipe')

#: The browser reads its file 3 and writes its file 4.
START = """
import fcntl, os, sys
down, up = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(down, 3)
os.dup2(up, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def program() -> str | None:
    """The browser of this machine; None = there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of a browser process; to be closed.

    said:    errors, exceptions and lines of the console.
    fetched: addresses that the page asked for.
    """

    def __init__(self, executable: str, folder: pathlib.Path,
                 options: Sequence[str] = OPTIONS) -> None:
        self.said: list[str] = []
        self.fetched: list[str] = []
        self._numbers = itertools.count(1)
        self._buffer = b''
        self._session: str | None = None
        down, self._write = os.pipe()
        self._read, up = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, '-c', START, str(down), str(up), executable, *options,
             f'--user-data-dir={folder}', 'about:blank'],
            pass_fds=(down, up), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(down)
        os.close(up)
        target = next(one for one in self.call('Target.getTargets')['targetInfos']
                      if one['type'] == 'page')
        self._session = self.call('Target.attachToTarget', targetId=target['targetId'],
                                  flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'):
            self.call(f'{domain}.enable')

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What a method of the browser's protocol answers.

        :raises RuntimeError: it is refused.
        """
        number = next(self._numbers)
        message: dict[str, Any] = {'id': number, 'method': method, 'params': parameters}
        if self._session:
            message['sessionId'] = self._session
        os.write(self._write, json.dumps(message).encode() + b'\0')
        while True:
            answer = self._next(60)
            if answer.get('id') == number:
                if 'error' in answer:
                    raise RuntimeError(f'{method}: {answer["error"]}')
                return answer['result']

    def _next(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b'\0' not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, end - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b''
            if not data:
                raise RuntimeError('the browser does not answer')
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b'\0')
        found = json.loads(message)
        self._note(found)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get('method'), event.get('params', {})
        if method == 'Runtime.consoleAPICalled':
            self.said.append(str([one.get('value') for one in parameters['args']]))
        elif method == 'Runtime.exceptionThrown':
            self.said.append(str(parameters['exceptionDetails']))
        elif method == 'Log.entryAdded':
            self.said.append(parameters['entry']['text'])
        elif method == 'Network.requestWillBeSent':
            self.fetched.append(parameters['request']['url'])

    def open(self, path: pathlib.Path) -> None:
        """Show a page, and wait until it is there with all of its pictures."""
        self.call('Page.navigate', url='about:blank')
        self.said.clear()
        self.fetched.clear()
        self.call('Page.navigate', url=path.as_uri())
        end = time.monotonic() + 60
        while not self.value('document.readyState === "complete" && location.protocol === '
                             '"file:"'):
            if time.monotonic() > end:
                raise RuntimeError(f'{path} does not load')
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """Of a JavaScript expression in the page."""
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True,
                           awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(str(answer['exceptionDetails']))
        return answer['result'].get('value')

    def look(self, width: int, height: int = 900, scheme: str = 'light', medium: str = '') -> None:
        """Choose the window's size in pixels, the colour scheme, and print as the medium."""
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call('Emulation.setEmulatedMedia', media=medium,
                  features=[{'name': 'prefers-color-scheme', 'value': scheme}])

    def press(self, key: str, code: int) -> None:
        """A key, as a person presses it."""
        for kind in ('rawKeyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code)

    def point(self, x: float, y: float) -> None:
        """Move the mouse to a place of the window, pixels."""
        self.call('Input.dispatchMouseEvent', type='mouseMoved', x=x, y=y)

    def picture(self, whole: bool = True) -> bytes:
        """PNG of the page, or of what the window shows of it."""
        return base64.b64decode(self.call('Page.captureScreenshot', format='png',
                                          captureBeyondViewport=whole)['data'])
