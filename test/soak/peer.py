"""A process beside a node that tells when the first result has come; it is there to be killed.

``python -m test.soak.peer NAMESPACE``; with a further word it sends pairs, too.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time

from test.node.client import Client
from test.soak.camera import HEIGHT, WIDTH, textures

PERIOD_S = 1 / 15

if __name__ == '__main__':
    namespace, *sends = sys.argv[1:]
    with contextlib.suppress(KeyboardInterrupt), contextlib.closing(Client(
            int(os.environ['ROS_DOMAIN_ID']), ('disparity',), namespace=namespace)) as client:
        images = textures(5, WIDTH, HEIGHT)
        told = False
        while True:
            if sends:
                client.send_frame(*images)
            if client.received['disparity'] and not told:
                told = True
                print('received', flush=True)
            client.received['disparity'].clear()
            time.sleep(PERIOD_S)
