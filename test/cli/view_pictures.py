"""A recording in a browser without a window: python -m test.cli.view_pictures RRD PICTURE.

The picture of README is that of a node while a street is played to it:

  stereo_bp render --output street --size 480x360 --frames 30
  stereo_bp_node --ros-args -r __ns:=/front -p preset:=road_fast &
  stereo_bp view --thin-points 3 --save street.rrd --seconds 12 &
  stereo_bp replay street --rate 0.5 --loop 3 --ros-args -r __ns:=/front
  python -m test.cli.view_pictures street.rrd docs/images/view.jpg
"""

from __future__ import annotations

import pathlib
import sys
import tempfile
import time

import cv2
import numpy as np

from stereo_bp_ros.cli import viewer
from stereo_bp_ros.cli.main import build_parser
from test.evaluation.browser import OPTIONS, Browser, program

#: WebGL without a GPU.
SOFTWARE = (*(one for one in OPTIONS if one != '--disable-gpu'), '--use-gl=angle',
            '--use-angle=swiftshader', '--enable-unsafe-swiftshader')
#: Seconds: a browser that renders in software beside other tests needs a minute, and several for
#: a whole recording.
LIMIT_S, STILL_LIMIT_S = 300, 1200


#: Seconds between two pictures that are equal once a recording is there as a whole.
STILL_S = 8


def picture_of(browser: Browser, port: int, size: tuple[int, int], colours: float, *,
               is_still: bool = False) -> np.ndarray:
    """What the browser shows of a viewer, BGR, once so large a share of the pixels has a colour.

    The viewer's own parts are grey.

    :param is_still: wait until it does not change any more, but for its clock.
    """
    before = None
    browser.look(*size)
    browser.call('Page.navigate', url=f'http://{viewer.LOCAL}:{port}')
    end = time.monotonic() + (STILL_LIMIT_S if is_still else LIMIT_S)
    while True:
        assert time.monotonic() < end, browser.said
        time.sleep(STILL_S if is_still else 1)
        try:
            png = browser.picture(whole=False)
        except RuntimeError:        # between two pages
            continue
        pixels = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
        spread = pixels.max(-1).astype(int) - pixels.min(-1)
        if (spread > 60).mean() > colours:
            if not is_still or (before is not None and (pixels != before).mean() < 0.002):
                return pixels
            before = pixels


def main(recording: str, picture: str, port: int = 9090) -> None:
    """Write a picture of a recording."""
    executable = program()
    assert executable, 'no Chromium (apt-get install chromium)'
    options = build_parser('view').parse_args(['view', '--web', str(port)])
    with (tempfile.TemporaryDirectory() as folder,
          viewer.Viewer(options, pathlib.Path(recording))):
        browser = Browser(executable, pathlib.Path(folder), SOFTWARE)
        try:
            cv2.imwrite(picture, picture_of(browser, port, (1440, 900), 0.05, is_still=True),
                        [cv2.IMWRITE_JPEG_QUALITY, 80])
        finally:
            browser.close()


if __name__ == '__main__':
    main(*sys.argv[1:3])
