"""The errors of this package, each with the numbers that a caller needs to act on."""

from __future__ import annotations

import enum
from typing import Any


class InputReason(str, enum.Enum):
    """Why an input was refused; the value is also the key of its counter and diagnostic."""

    UNKNOWN_ENCODING = 'unknown encoding'
    BAD_STEP = 'bad step'
    SHORT_DATA = 'short data'
    BAD_SIZE = 'bad size'
    TOO_LARGE = 'too large'
    SIZE_MISMATCH = 'size mismatch'
    CAMERA_INFO_SIZE = 'camera_info size'
    BAD_CALIBRATION = 'bad calibration'
    ZERO_BASELINE = 'zero baseline'
    SWAPPED_CAMERAS = 'swapped cameras'
    ZERO_STAMP = 'zero stamp'
    BAD_COMPRESSION = 'bad compression'
    BAD_ARRAY = 'bad array'

    def __str__(self) -> str:
        return self.value


class StereoError(Exception):
    """Base class of every error that this package raises on purpose."""


class ConfigError(StereoError, ValueError):
    """A setting is refused. The text names the setting, its value and the limit."""

    def __init__(self, field: str, value: Any, limit: str) -> None:
        super().__init__(f'{field} is {value!r}, but {limit}')
        self.field = field
        self.value = value
        self.limit = limit


class InputError(StereoError, ValueError):
    """An image or a calibration is refused; nothing was computed or allocated for it."""

    def __init__(self, reason: InputReason, value: Any, limit: str) -> None:
        super().__init__(f'{reason.value}: {value}; {limit}')
        self.reason = reason
        self.value = value
        self.limit = limit


class BackendUnavailable(StereoError, RuntimeError):
    """The asked-for back end cannot run here; ``remedy`` says what would change that."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(f'{reason}; {remedy}')
        self.reason = reason
        self.remedy = remedy


class MemoryLimitError(StereoError, MemoryError):
    """The memory plan exceeds what is allowed; known before anything is allocated."""

    def __init__(self, needed: int, allowed: int) -> None:
        super().__init__(
            f'the memory plan needs {needed / 2**20:.1f} MiB, but memory_limit allows '
            f'{allowed / 2**20:.1f} MiB')
        self.needed = needed
        self.allowed = allowed


class OutOfDeviceMemory(StereoError, MemoryError):
    """The device had no memory left for the engine; recoverable by a rebuild."""


class DeviceLostError(StereoError, RuntimeError):
    """The device no longer answers; no engine on it can run again in this process."""
