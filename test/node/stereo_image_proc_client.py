"""Sends one pair to the disparity nodelet of ROS 1 and writes down what comes back.

Run by the interpreter that has rospy, without NumPy: argument = a JSON file with width, height,
left, right (paths of the pixels), P_left, P_right and answer (the file to write).
"""

import json
import struct
import sys
import time

import rospy
from sensor_msgs.msg import CameraInfo, Image
from stereo_msgs.msg import DisparityImage

with open(sys.argv[1]) as file:
    job = json.load(file)
found = []
rospy.init_node('pair', disable_signals=True)
rospy.Subscriber('disparity', DisparityImage, found.append)
images = {side: rospy.Publisher(side + '/image_rect', Image, queue_size=1)
          for side in ('left', 'right')}
infos = {side: rospy.Publisher(side + '/camera_info', CameraInfo, queue_size=1)
         for side in ('left', 'right')}
deadline = time.time() + 20
while not found and time.time() < deadline:
    stamp = rospy.Time.now()
    for side in ('left', 'right'):
        image = Image(height=job['height'], width=job['width'], encoding='mono8',
                      step=job['width'])
        with open(job[side], 'rb') as file:
            image.data = file.read()
        P = job['P_' + side]
        info = CameraInfo(height=job['height'], width=job['width'], P=P, D=[0.0] * 5,
                          K=[P[0], 0, P[2], 0, P[5], P[6], 0, 0, 1],
                          R=[1, 0, 0, 0, 1, 0, 0, 0, 1], distortion_model='plumb_bob')
        for message, publisher in ((image, images[side]), (info, infos[side])):
            message.header.stamp = stamp
            message.header.frame_id = 'camera'
            publisher.publish(message)
    time.sleep(0.2)
if found:
    first = found[0]
    with open(job['answer'], 'w') as file:
        json.dump({'f': first.f, 't': first.T, 'delta_d': first.delta_d,
                   'min_disparity': first.min_disparity, 'max_disparity': first.max_disparity,
                   'encoding': first.image.encoding,
                   'values': struct.unpack('<' + 'f' * (job['width'] * job['height']),
                                           first.image.data)}, file)
sys.exit(not found)
