"""A process that sends pairs to a node and tells when the first result has come.

It is there to be killed: ``python -m test.soak.sender NAMESPACE``.
"""

from __future__ import annotations

import os
import sys
import time

from test.node.client import Client
from test.soak.camera import textures

#: Of the images, pixels, and seconds from one pair to the next.
WIDTH, HEIGHT, PERIOD = 96, 64, 1 / 15


def main() -> None:
    """Run until a signal ends it."""
    client = Client(int(os.environ['ROS_DOMAIN_ID']), ('disparity',), namespace=sys.argv[1])
    images = {side: client.image(pixels) for side, pixels in zip(
        ('left', 'right'), textures(5, WIDTH, HEIGHT), strict=True)}
    told = False
    while True:
        stamp = client.now_ns()
        for side, image in images.items():
            client.send_info(side, client.info(side, WIDTH, HEIGHT), stamp)
            client.send_image(side, image, stamp)
        if client.received['disparity'] and not told:
            told = True
            print('received', flush=True)
        time.sleep(PERIOD)


if __name__ == '__main__':
    main()
