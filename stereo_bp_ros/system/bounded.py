"""What is read of files that others wrote: regular ones, up to limits that a variable raises."""

from __future__ import annotations

import math
import os
import pathlib
import stat

from stereo_bp_ros.errors import ConfigError

#: An environment variable: the factor by which every limit below is multiplied, 1 if not set.
VARIABLE = 'STEREO_BP_LIMIT_FACTOR'

#: Of an image or a disparity map: 8192 x 8192, the default of max_image_width and _height.
MAX_PIXELS = 2**26

#: Of an image or a disparity map in a file.
MAX_BYTES = 2**29

#: Of a calibration, of stamps, and of YAML, where aliases count as what they stand for.
MAX_TEXT_BYTES = 2**22

#: Of reports in JSON, which have some kilobytes a frame.
MAX_REPORT_BYTES = 2**28


def resolved(path: str | os.PathLike[str]) -> pathlib.Path:
    """A path without links; where these lead in a circle, to one of the circle.

    ``Path.resolve`` raises a RuntimeError for such links until Python 3.13.
    """
    return pathlib.Path(os.path.realpath(path))


def allowed(limit: int) -> int:
    """A limit times the factor of the environment.

    :raises ConfigError: the environment variable has no number.
    """
    return int(limit * min(_factor(), 1e9))


def check_limit(count: int, limit: int, unit: str) -> None:
    """Reject what is more than a limit.

    :raises ValueError: a sentence about 'it' that names the limit and what raises it, or about
        the variable, which has no number.
    """
    if count > allowed(limit):
        raise ValueError(f'it has more than {allowed(limit)} {unit}; the environment variable '
                         f'{VARIABLE}={2 * _factor():g} allows twice as much')


def _factor() -> float:
    text = os.environ.get(VARIABLE) or '1'
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise ConfigError(VARIABLE, text, 'must be a number above 0')
    return factor


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """Read a regular file, as long as it is when it is opened.

    Others are not waited for, and may have no end.

    :param limit: of its bytes, before the factor of the environment.
    :raises ValueError: a sentence without a subject: it cannot be read, and why.
    """
    try:
        # Opening a pipe would wait for its writer.
        with open(path, 'rb', opener=_open_at_once) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise ValueError('it is no regular file')
            check_limit(about.st_size, limit, 'bytes')
            return file.read(about.st_size)
    except OSError as error:
        raise ValueError(f'cannot be read: {error.strerror}') from error
    except ValueError as error:
        raise ValueError(f'cannot be read: {error}') from error


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
