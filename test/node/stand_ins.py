"""Stand-ins for messages and the matcher, for tests of the node without ROS or computation."""

from __future__ import annotations

import array
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stereo_bp_ros import geometry
from stereo_bp_ros.config import MatcherConfig
from stereo_bp_ros.types import OUTPUTS, DisparityFrame


def make_stamped(stamp_ns: int, **fields: Any) -> types.SimpleNamespace:
    """Anything with a header."""
    stamp = types.SimpleNamespace(sec=stamp_ns // 10**9, nanosec=stamp_ns % 10**9)
    header = types.SimpleNamespace(stamp=stamp, frame_id='camera')
    return types.SimpleNamespace(header=header, **fields)


def make_info(stamp_ns: int = 0, *, side: str = 'left', width: int = 32, height: int = 24,
              focal: float = 100.0, baseline: float = 0.1, cx: float = 16.0
              ) -> types.SimpleNamespace:
    """Something CameraInfo-like."""
    p = [focal, 0, cx, 0 if side == 'left' else -focal * baseline,
         0, focal, height / 2, 0, 0, 0, 1, 0]
    k = [focal, 0, cx, 0, focal, height / 2, 0, 0, 1]
    return make_stamped(stamp_ns, p=p, k=k, r=[1, 0, 0, 0, 1, 0, 0, 0, 1], d=[0.0] * 5,
                        distortion_model='plumb_bob', width=width, height=height, binning_x=0,
                        binning_y=0,
                        roi=types.SimpleNamespace(x_offset=0, y_offset=0, width=0, height=0))


def make_image(stamp_ns: int, pixels: np.ndarray) -> types.SimpleNamespace:
    """Something Image-like, mono8 or mono16."""
    return make_stamped(stamp_ns, data=array.array('B', pixels.tobytes()),
                        encoding=f'mono{8 * pixels.itemsize}', height=pixels.shape[0],
                        width=pixels.shape[1], step=pixels.strides[0], is_bigendian=0)


class FakeMatcher:
    """Has the interface of StereoMatcher; every pixel gets ``min_disparity``.

    ``fail`` is raised by the next call of ``compute``, ``refuse`` by the next of ``reconfigure``.
    """

    backend_reason = 'a stand-in'

    def __init__(self, config: MatcherConfig) -> None:
        self.config = config
        self.backend = 'cpu' if config.backend == 'cpu' else 'fake'
        self.size: tuple[int, int] | None = None
        self.memory_plan: geometry.MemoryPlan | None = None
        self.calibration: Any = None
        self.fail: list[Exception] = []
        self.refuse: list[Exception] = []
        self.before_compute: Callable[[], None] = lambda: None
        self.closed = False
        #: Names of the outputs of every frame.
        self.outputs: list[tuple[str, ...]] = []
        self.rectifications: list[Any] = []

    compile_time = 0.0

    @property
    def config_in_force(self) -> MatcherConfig:
        return geometry.searched(self.config, self.calibration)

    def prepare(self, width: int = 0, height: int = 0, calibration: Any = None) -> float:
        self.calibration = calibration or self.calibration
        if width:
            self.size = (width, height)
        return 0.0

    def reconfigure(self, config: MatcherConfig, calibration: Any = None) -> bool:
        self.calibration = calibration or self.calibration
        if self.refuse:
            raise self.refuse.pop(0)
        needed = not self.config.is_live_change(config)
        self.config = config
        return needed

    def compute(self, left: Any, right: Any, *, calibration: Any = None,
                rectification: Any = None, outputs: Sequence[str] = ('disparity',),
                out: Mapping[str, np.ndarray] | None = None) -> DisparityFrame:
        self.before_compute()
        if self.fail:
            raise self.fail.pop(0)
        self.outputs.append(tuple(outputs))
        self.rectifications.append(rectification)
        arrays = dict(out or {})
        config = self.config_in_force
        for values in arrays.values():
            values[:] = config.min_disparity
        return DisparityFrame(
            **{name: arrays.get(name) for name in OUTPUTS},
            min_disparity=config.min_disparity,
            max_disparity=config.min_disparity + config.disparity_range - 1,
            delta_d=geometry.disparity_step(config),
            valid_window=geometry.valid_window(config, left.width, left.height),
            timings={'messages': 0.0}, backend=self.backend)

    @property
    def computed(self) -> int:
        """How many frames."""
        return len(self.outputs)

    def close(self) -> None:
        self.closed = True
