"""Stereo matching by belief propagation and block matching, as a library and a ROS 2 node."""

from stereo_bp_ros.system import process

if process.is_command():
    process.end_by_interruption()       # before the other imports, which take most of the start

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.cameras.rectification import RawCamera, Rectification
from stereo_bp_ros.config.files import preset_names
from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.errors import (
    BackendUnavailable,
    ConfigError,
    DeviceLostError,
    InputError,
    MemoryLimitError,
    OutOfDeviceMemory,
    StereoError,
)
from stereo_bp_ros.frame.disparity_frame import DisparityFrame, PointCloud, ValidWindow
from stereo_bp_ros.frame.pending import Pending
from stereo_bp_ros.images.raw_images import RawImage
from stereo_bp_ros.issues import Issue, IssueCode, IssueLevel
from stereo_bp_ros.matcher.opencv_interface import OpenCvStereoMatcher
from stereo_bp_ros.matcher.stereo_matcher import StereoMatcher
from stereo_bp_ros.stream.stereo_stream import StereoStream, StreamResult, examine_pair

__version__ = '0.1.0'

__all__ = [
    'BackendUnavailable', 'Calibration', 'ConfigError', 'DeviceLostError', 'DisparityFrame',
    'InputError', 'Issue', 'IssueCode', 'IssueLevel', 'MatcherConfig', 'MemoryLimitError',
    'OpenCvStereoMatcher', 'OutOfDeviceMemory', 'Pending', 'PointCloud', 'RawCamera', 'RawImage',
    'Rectification', 'StereoError', 'StereoMatcher', 'StereoStream', 'StreamResult', 'ValidWindow',
    'examine_pair', 'preset_names',
]
