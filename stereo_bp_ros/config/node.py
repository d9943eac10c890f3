"""How the ROS node receives, pairs and publishes: its settings."""

from __future__ import annotations

import dataclasses

from stereo_bp_ros.config.files import AUTO, load_preset
from stereo_bp_ros.config.settings import Settings, documented, setting
from stereo_bp_ros.errors import ConfigError


@documented
@dataclasses.dataclass(frozen=True, repr=False)
class NodeConfig(Settings):
    """How the ROS node receives, pairs and publishes.

    :raises ConfigError: a value or a combination is rejected; the text names it and the limit.
    """

    preset: str = setting(
        AUTO, 'preset that provides all settings of matching: a shipped one; none, their own '
        'defaults; auto, the best one for roads on this machine and the size of the first image, '
        'unless a setting of matching is given; robots indoors set indoor')
    autostart: bool = setting(
        True, 'configure and activate without being asked', read_only=True)
    lock_memory: bool = setting(
        False, 'lock the memory of the process in RAM once it is configured (mlockall); needs '
        'CAP_IPC_LOCK, or a memlock limit of unlimited', read_only=True)
    image_width: int = setting(
        0, 'width that configure allocates memory for; 0 = that of the first images', 0, 65536,
        unit='pixels', read_only=True)
    image_height: int = setting(
        0, 'height that configure allocates memory for; 0 = that of the first images', 0, 65536,
        unit='pixels', read_only=True)

    image_transport: str = setting(
        'raw', 'raw images, or compressed ones (PNG, JPEG) on <topic>/compressed',
        choices=('raw', 'compressed'), read_only=True)
    side_by_side: str = setting(
        'off', 'where each image of a side-by-side camera has those of the left and the right '
        'camera; the node then subscribes to image_rect (with rectify image_raw) in place of '
        'left/image_rect and right/image_rect',
        choices=('off', 'left_right', 'right_left', 'top_bottom'), read_only=True)
    calibration: str = setting(
        '', 'file of the stereo calibration, in place of both camera_info topics: left.yaml of '
        'camera_calibration with right.yaml beside it, or another one that --rectify reads (with '
        'rectify) or --calibration (without)', read_only=True)
    approximate_sync: bool = setting(
        False, 'pair images whose stamps differ by up to the tolerance', live=True)
    approximate_sync_tolerance_seconds: float = setting(
        0.01, 'maximum difference of the stamps of a pair with approximate_sync; 0 (no limit in '
        'stereo_image_proc) is rejected with it', 0, 10, unit='seconds', live=True,
        ignored='without approximate_sync')
    queue_size: int = setting(
        5, 'images of each side kept while they wait for a partner', 1, 1000, live=True)
    use_system_default_qos: bool = setting(
        False, 'subscribe with the system default QoS, not SensorDataQoS', read_only=True)

    max_input_age: float = setting(
        0.5, 'drop pairs as stale that are older than this when they are taken for matching; 0 = '
        'off', 0, 3600, unit='seconds', live=True)
    max_latency: float = setting(
        0.0, 'drop results as late that come later than this after their stamp; 0 = off',
        0, 3600, unit='seconds', live=True)
    jump_threshold: float = setting(
        1.0, 'treat stamps that go back by more than this as a restart of the clock or the bag',
        0, 3600, unit='seconds', live=True)
    input_timeout: float = setting(
        1.0, 'report an error in /diagnostics when a topic is silent for this long',
        0.01, 3600, unit='seconds', live=True)
    points_organized: bool = setting(
        True, 'points2 has a point for every pixel, NaN where there is none; false: only the '
        'points that there are, in one row', live=True)
    min_valid_fraction: float = setting(
        0.05, 'warn when the valid fraction of the window falls below this', 0, 1, live=True)
    max_vertical_offset: float = setting(
        0.75, 'warn when the rows of half of the corners differ by more than this; 0 = not '
        'measured', 0, 32, unit='pixels', live=True)
    latency_budget_ms: float = setting(
        100.0, 'warn when the 95th percentile of the total latency exceeds this; 0 = off',
        0, 60000, unit='ms', live=True)
    depth_encoding: str = setting(
        '32FC1', 'depth images of metres (32FC1, NaN = none) or of millimetres (16UC1, 0 = none)',
        choices=('32FC1', '16UC1'), read_only=True)
    on_device_loss: str = setting(
        'exit', 'after the loss of the GPU: exit with an error status, or continue on the CPU',
        choices=('exit', 'cpu'), live=True, ignored='on the CPU')

    @property
    def is_side_by_side(self) -> bool:
        """Whether one image has those of both cameras."""
        return self.side_by_side != 'off'

    @property
    def stamp_tolerance_s(self) -> float:
        """Maximum difference of the stamps of a pair, seconds; 0 = they have to be equal."""
        return self.approximate_sync_tolerance_seconds if self.approximate_sync else 0.0

    def check(self) -> None:
        if self.preset and self.preset != AUTO:
            load_preset(self.preset)
        if bool(self.image_width) != bool(self.image_height):
            raise ConfigError('image_height', self.image_height,
                              f'image_width is {self.image_width}: set both, or neither')
        if self.approximate_sync and not self.approximate_sync_tolerance_seconds:
            raise ConfigError('approximate_sync_tolerance_seconds', 0.0, 'with approximate_sync '
                              'it must be above 0: images however far apart are no pair')
