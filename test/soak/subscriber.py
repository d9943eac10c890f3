"""A process that subscribes to one topic reliably and tells when the first message has come.

It is there to be stopped and killed: ``python -m test.soak.subscriber TOPIC``.
"""

from __future__ import annotations

import sys

import rclpy
from rclpy.qos import QoSProfile
from stereo_msgs.msg import DisparityImage


def main() -> None:
    """Run until a signal ends it."""
    rclpy.init(args=[])
    node = rclpy.create_node('soak_subscriber')
    told = False

    def tell(message: DisparityImage) -> None:
        nonlocal told
        if not told:
            told = True
            print('received', flush=True)

    node.create_subscription(DisparityImage, sys.argv[1], tell, QoSProfile(depth=10))
    rclpy.spin(node)


if __name__ == '__main__':
    main()
