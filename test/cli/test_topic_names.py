"""The names that drivers, simulators and converters give to the topics of a stereo camera."""

from __future__ import annotations

import itertools
import re

import pytest

from stereo_bp_ros import StereoError
from stereo_bp_ros.sources import bags
from stereo_bp_ros.sources.bag_topics import StereoTopics, find_stereo_topics


def topics_of(*names: str) -> dict[str, str]:
    """Topics and types: camera_info by the last word, compressed by theirs, else images."""
    return {name: bags.CAMERA_INFO if name.endswith('info') else
            bags.COMPRESSED_IMAGE if 'compressed' in name else bags.IMAGE for name in names}


def beside(*images: str) -> dict[str, str]:
    """Images, each with its camera_info beside it."""
    places = (image.removesuffix('/compressed').rpartition('/')[0] for image in images)
    return topics_of(*images, *(f'{place}/camera_info' for place in places))


def below(*images: str) -> dict[str, str]:
    """Images, each with its camera_info below it."""
    return topics_of(*images, *(f'{image}/camera_info' for image in images))


#: Images of a camera, of which the first are the pair; <a|b> stands for both sides.
CAMERAS = {
    'ZED': ('/zed/zed_node/<left|right>/image_rect_color', '/zed/zed_node/rgb/image_rect_color',
            '/zed/zed_node/<left|right>_raw/image_raw_color',
            '/zed/zed_node/depth/depth_registered'),
    'ZED, newer driver': ('/zed/zed_node/<left|right>/gray/rect/image',
                          '/zed/zed_node/<left|right>/color/rect/image'),
    'RealSense': ('/camera/camera/infra<1|2>/image_rect_raw', '/camera/camera/color/image_raw',
                  '/camera/camera/depth/image_rect_raw',
                  '/camera/camera/aligned_depth_to_infra1/image_raw'),
    'RealSense T265': ('/camera/fisheye<1|2>/image_raw',),
    'OAK, depthai-ros': ('/oak/<left|right>/image_rect', '/oak/rgb/image_raw',
                         '/oak/stereo/image_raw', '/oak/stereo/depth'),
    'EuRoC and TUM-VI': ('/cam<0|1>/image_raw',),
    'kitti2bag': ('/kitti/camera_gray_<left|right>/image_raw',),
    'CARLA': tuple(f'/carla/ego_vehicle/{kind}_<left|right>/image'
                   for kind in ('rgb', 'depth', 'semantic_segmentation')),
    'Isaac': ('/front_stereo_camera/<left|right>/image_rect_color',
              '/front_stereo_camera/<left|right>/semantic_segmentation'),
    'Basler': ('/stereo/<left|right>/pylon_ros2_camera_node/image_raw',),
    'rectified and raw': ('/cam/<left|right>/image_rect', '/cam/<left|right>/image_raw',
                          '/cam/<left|right>/image_rect/compressed'),
    'left in the name of the robot, too': ('/left_arm/stereo/<left|right>/image_rect',),
    'camera_1 and camera_2': ('/camera_<1|2>/image_raw',),
    'capitals': ('/rig/CAM_<LEFT|RIGHT>/image',),
    'l and r': ('/stereo/<l|r>/image_raw',),
    'depth in the namespace': ('/depth_camera/<left|right>/image_raw',),
    'front, and no others': ('/CAM_FRONT_<LEFT|RIGHT>/image',)}


def both(pattern: str) -> list[str]:
    return list(dict.fromkeys(re.sub(r'<(.*)\|(.*)>', rf'\{side}', pattern) for side in (1, 2)))


@pytest.mark.parametrize('camera', CAMERAS)
def test_the_pair_is_found_by_the_names_of(camera):
    first, *others = map(both, CAMERAS[camera])
    found = find_stereo_topics(beside(*first, *itertools.chain(*others)))
    assert [found.left_image, found.right_image] == first
    assert [found.left_info, found.right_info] == [
        f'{image.rpartition("/")[0]}/camera_info' for image in first]
    assert found.truth == ''


AIRSIM = '/airsim_node/drone_1/front_{}_custom/{}'


def test_camera_info_is_found_below_its_image():
    topics = below(*(AIRSIM.format(side, name) for side in ('left', 'right')
                     for name in ('Scene', 'DepthPlanar', 'Segmentation', 'SurfaceNormals')))
    found = find_stereo_topics(topics)
    assert found.left_image == AIRSIM.format('left', 'Scene')
    assert found.right_info == AIRSIM.format('right', 'Scene/camera_info')
    multisense = below(*(f'/multisense/{side}/{name}' for side in ('left', 'right')
                         for name in ('image_mono', 'image_rect', 'disparity')))
    found = find_stereo_topics(multisense)
    assert found.left_image == '/multisense/left/image_rect'
    assert found.left_info == '/multisense/left/image_rect/camera_info'


def test_camera_info_elsewhere_is_the_one_of_the_same_camera():
    for infos in (('/rig/info_l/camera_info', '/rig/info_r/camera_info'),
                  ('/info/left_info', '/info/right_info')):
        images = [f'/rig/image_{side}' for side in (('l', 'r') if '_l/' in infos[0]
                                                    else ('left', 'right'))]
        found = find_stereo_topics(topics_of(*images, *infos))
        assert (found.left_image, found.right_image) == tuple(images)
        assert (found.left_info, found.right_info) == infos
    topics = topics_of('/a/left/image', '/a/right/image', '/a/left_info', '/a/right_info',
                       '/b/left_info', '/b/right_info')
    found = find_stereo_topics(topics)
    assert (found.left_info, found.right_info) == ('/a/left_info', '/a/right_info')
    del topics['/a/left_info']
    topics['/c/left_info'] = bags.CAMERA_INFO
    with pytest.raises(StereoError, match=r'several camera_info .*/b/left_info, /c/left_info; '
                       'name it with --left-info'):
        find_stereo_topics(topics)


def test_several_pairs_are_listed_with_what_chooses_one():
    topics = beside(*(f'/camera_{number}/image_raw' for number in range(4)))
    with pytest.raises(StereoError, match=r'several stereo pairs: /camera_0/image_raw and '
                       r'/camera_1/image_raw; /camera_1/image_raw and .*--left'):
        find_stereo_topics(topics)
    found = find_stereo_topics(topics, StereoTopics('/camera_1/image_raw'))
    assert found.right_image == '/camera_2/image_raw'
    topics = beside(*(f'/{camera}/{side}/image_rect' for camera in ('front', 'rear')
                      for side in ('left', 'right')))
    with pytest.raises(StereoError, match=r'several stereo pairs: /front/left/image_rect and '
                       r'/front/right/image_rect; /rear/left/image_rect and .*--left'):
        find_stereo_topics(topics)
    assert find_stereo_topics(topics, StereoTopics('rear/left/image_rect')) == StereoTopics(
        '/rear/left/image_rect', '/rear/right/image_rect', '/rear/left/camera_info',
        '/rear/right/camera_info')


def test_a_ring_of_cameras_is_no_stereo_camera_unless_the_user_says_so():
    front = [f'/CAM_FRONT{side}/image_rect_compressed' for side in ('', '_LEFT', '_RIGHT')]
    topics = beside(*front)
    with pytest.raises(StereoError, match=r'ring look away from each other.*CAM_FRONT_LEFT.*and '
                       '/CAM_FRONT_RIGHT.*--left and --right'):
        find_stereo_topics(topics)
    assert find_stereo_topics(topics, StereoTopics(front[1], front[2])).left_image == front[1]
    back = [f'/CAM_BACK{side}/image_rect_compressed' for side in ('', '_LEFT', '_RIGHT')]
    with pytest.raises(StereoError, match=r'CAM_BACK_LEFT.*CAM_FRONT_LEFT'):
        find_stereo_topics(beside(*front, *back))


@pytest.mark.parametrize(('left', 'right', 'middle'), [
    ('/left/image', '/right/image', '/front/image'),
    ('/cam_left/image_raw', '/cam_right/image_raw', '/cam_front/image_raw'),
    ('/ring_front_left/image', '/ring_front_right/image', '/ring_front_center/image'),
    ('/SIDE_LEFT/image', '/SIDE_RIGHT/image', '/FRONT/image')])
def test_cameras_that_look_to_the_left_and_to_the_right_are_no_pair(left, right, middle):
    with pytest.raises(StereoError, match='ring look away from each other'):
        find_stereo_topics(beside(left, right, middle))
    assert find_stereo_topics(beside(left, right, middle), StereoTopics(left)).right_image == right


def test_pairs_in_several_directions_are_listed():
    every = ('front', 'back', 'left', 'right', 'top', 'bottom')
    topics = beside(*(f'/{side}cam_{direction}/image' for side in 'lr' for direction in every))
    with pytest.raises(StereoError, match='several stereo pairs') as caught:
        find_stereo_topics(topics)
    for direction in every:
        assert f'/lcam_{direction}/image and /rcam_{direction}/image' in str(caught.value)
    assert '/lcam_left/image and /lcam_right' not in str(caught.value)
    front = beside('/lcam_front/image', '/rcam_front/image')
    assert find_stereo_topics(front).right_image == '/rcam_front/image'


@pytest.mark.parametrize('name', ['depth', 'confidence_map', 'disparity/image', 'mask',
                                  'image_raw/compressedDepth'])
def test_images_that_are_made_from_those_of_the_cameras_are_no_pair(name):
    with pytest.raises(StereoError, match='no pair of left and right image topics'):
        find_stereo_topics(beside(f'/zed/left/{name}', f'/zed/right/{name}'))


def test_topics_are_named_one_by_one_where_their_names_tell_nothing():
    topics = topics_of('/a/image', '/b/image', '/a/info', '/b/info')
    with pytest.raises(StereoError, match=r'no pair of left.*/a/image, /b/image.*--left'):
        find_stereo_topics(topics)
    with pytest.raises(StereoError, match=r'no camera_info belongs to /a/image.*--left-info'):
        find_stereo_topics(topics, StereoTopics('/a/image', '/b/image'))
    found = find_stereo_topics(topics_of('/left/image_rect', '/right/image_rect'))
    assert (found.left_image, found.left_info, found.right_info) == ('/left/image_rect', '', '')
    named = StereoTopics('/a/image', '/b/image', '/a/info', '/b/info')
    assert find_stereo_topics(topics, named) == named
    with pytest.raises(StereoError, match=r'no image topic /c/image among /a/image, /b/image'):
        find_stereo_topics(topics, StereoTopics('/c/image', '/b/image'))
    with pytest.raises(StereoError, match=r'no pair of left and right.*/a/left, /b/left'):
        find_stereo_topics(topics_of('/a/left', '/b/left'))
    with pytest.raises(StereoError, match=r'no pair of left and right.*/imu'):
        find_stereo_topics({'/imu': 'sensor_msgs/msg/Imu'})
    with pytest.raises(StereoError, match='camera_info is the only camera_info'):
        find_stereo_topics(topics_of('/left', '/right', '/camera_info'))
