"""A process beside a node that tells when the first result has come; it is there to be killed.

``python -m test.soak.peer NAMESPACE``; with a further word it sends pairs, too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from test.node.client import Client
from test.soak.camera import textures

#: Of the images, pixels, and seconds from one pair to the next.
WIDTH, HEIGHT, PERIOD = 96, 64, 1 / 15


def main() -> None:
    """Run until a signal ends it."""
    namespace, *sends = sys.argv[1:]
    with contextlib.closing(Client(int(os.environ['ROS_DOMAIN_ID']), ('disparity',),
                                   namespace=namespace)) as client:
        images = {side: client.image(pixels) for side, pixels in zip(
            ('left', 'right'), textures(5, WIDTH, HEIGHT), strict=True)}
        told = False
        while True:
            stamp = client.now_ns()
            for side, image in images.items() if sends else ():
                client.send_info(side, client.info(side, WIDTH, HEIGHT), stamp)
                client.send_image(side, image, stamp)
            if client.received['disparity'] and not told:
                told = True
                print('received', flush=True)
            client.received['disparity'].clear()
            time.sleep(PERIOD)


if __name__ == '__main__':
    with contextlib.suppress(KeyboardInterrupt):
        main()
