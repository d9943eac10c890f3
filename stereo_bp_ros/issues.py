"""What may be wrong: the registry of codes, and one issue. Every program and the node use it."""

from __future__ import annotations

import dataclasses
import enum
import itertools
from collections.abc import Iterable, Iterator


class IssueLevel(enum.IntEnum):
    """How bad it is; the values are those of ``diagnostic_msgs/DiagnosticStatus``."""

    OK = 0
    WARN = 1
    ERROR = 2

    def __str__(self) -> str:
        return self.name.lower()


WARN, ERROR = IssueLevel.WARN, IssueLevel.ERROR


class IssueCode(str, enum.Enum):
    """What may be wrong. The value names its counter, its entry in JSON, and in the setting
    ``ignored_checks``.

    level: of its issues; an error of the scope 'pair' rejects the pair.
    about: what has to hold.
    scope: 'pair': every program checks it; 'run': of a recording or a replay as a whole; else of
           the node, and the status of /diagnostics that shows it, or 'log'.
    """

    level: IssueLevel
    about: str
    scope: str

    def __new__(cls, key: str, level: IssueLevel, about: str, scope: str = 'pair') -> IssueCode:
        code = str.__new__(cls, key)
        code._value_, code.level, code.about, code.scope = key, level, about, scope
        return code

    # Images
    UNKNOWN_ENCODING = (
        'unknown encoding', ERROR, 'the encoding of an image is one of the supported ones')
    BAD_STEP = 'bad step', ERROR, 'a row of an image has as many bytes as its pixels need'
    SHORT_DATA = 'short data', ERROR, 'an image has as many bytes as its rows need'
    BAD_SIZE = 'bad size', ERROR, 'an image has pixels, and an encoding with chroma even sides'
    TOO_LARGE = (
        'too large', ERROR,
        'an image is within max_image_width, max_image_height and memory_limit')
    SIZE_MISMATCH = 'size mismatch', ERROR, 'both images of a pair have one size'
    ZERO_STAMP = 'zero stamp', ERROR, 'an image message has a stamp'
    BAD_COMPRESSION = 'bad compression', ERROR, 'a compressed image is a whole PNG or JPEG'
    BAD_ARRAY = 'bad array', ERROR, 'an array has a supported shape, type and layout'
    IDENTICAL = 'identical images', WARN, 'left and right image differ'
    EXPOSURE = (
        'black or saturated', WARN,
        'an image is not black, and not saturated, in 99 % of its pixels')
    BITS = (
        'bits in 16', WARN,
        'the values of 16-bit images reach a grey value of 128 once mono16_scale is applied')
    PIXEL_BYTES = (
        'pixel bytes', WARN,
        'no other encoding, step and byte order make neighbouring pixels more alike')
    FROZEN = 'frozen camera', WARN, 'an image has other bytes than the one before it'

    # Calibration
    CAMERA_INFO_SIZE = (
        'camera_info size', ERROR, 'the calibration is of images of the size of the pair')
    BAD_CALIBRATION = (
        'bad calibration', ERROR, 'calibration values are finite, focal lengths above 0, R is '
        'a rotation, roi a part of the full image')
    ZERO_BASELINE = 'zero baseline', ERROR, 'the baseline is not 0'
    SWAPPED_CAMERAS = (
        'swapped cameras', ERROR, 'the baseline is above 0: the calibrations are not exchanged')
    VERTICAL_PAIR = (
        'vertical pair', ERROR, 'the cameras are beside each other, not above each other')
    BASELINE = 'baseline', WARN, 'the baseline is 5 mm to 2 m'
    PRINCIPAL_POINT = (
        'principal point', WARN, 'the principal point lies in the middle of the image, from 0.3 '
        'to 0.7 of its width and height')
    FIELD_OF_VIEW = (
        'field of view', WARN, 'the focal length is 0.2 to 5 times the width of the image')
    PROJECTIONS = (
        'rows of the calibration', WARN,
        'both cameras have one focal length and one row of the principal point')

    # Both images together
    EXCHANGED_IMAGES = (
        'exchanged images', ERROR,
        'corners have disparities within the range, not on its other side')
    VERTICAL_OFFSET = (
        'vertical offset', WARN,
        'rows of half of the corners match to 0.75 px (node: max_vertical_offset)')
    YAW = (
        'yaw', WARN, 'cameras are not turned about their vertical axes: what comes nearer grows '
        'in the image as its disparity does, and no far point has negative disparity')
    RECTIFIED = (
        'rectified or not', WARN, 'images are rectified once: those that are already are not raw')

    # Results
    TOO_NARROW = (
        'too narrow', WARN, 'images are wider than the disparities that are searched')
    FEW_VALID = (
        'few valid pixels', WARN,
        'at least 5 % of the pixels have a disparity (node: min_valid_fraction)')
    PILED_UP = (
        'largest disparity', WARN,
        'at most 0.5 % of the valid pixels have the maximum disparity that is searched')
    TRUTH_VALUES = (
        'truth values', WARN,
        'the right image, warped by the truth, is the left one, and by nothing else far more so')
    TRUTH = (
        'truth beyond the range', WARN,
        'at most 0.5 % of the true disparities lie beyond the searched range')

    # Recordings and replays
    SOURCE = 'source', WARN, 'all that belongs to the pairs of a source is read', 'run'
    REPLAY = 'replay', WARN, 'a replay sends all that it has, and all of it is answered', 'run'

    # The node
    INPUT = 'input', ERROR, 'messages can be taken in, and have a size that fits', 'input'
    SILENT = 'silent topic', ERROR, 'every input topic has messages', 'input'
    NO_CAMERA_INFO = 'no camera_info', ERROR, 'images have a camera_info', 'input'
    FRAME_ID = (
        'frame_id', WARN, 'an image and its camera_info are of one frame, which TF takes: it is '
        'not empty and begins with no slash', 'input')
    AGE = 'age', WARN, 'a pair is neither of the future nor older than max_input_age', 'input'
    CLOCK = 'clock', WARN, 'with use_sim_time there is a /clock, and it is not negative', 'input'
    CLOCK_JUMP = 'clock jump', WARN, 'stamps do not go back', 'input'
    DUPLICATE_STAMP = (
        'duplicate stamp', WARN, 'images of one side have different stamps', 'input')
    QOS = 'qos', WARN, 'the QoS of both ends of a topic fits', 'input'
    TRANSPORT = 'transport', WARN, 'the middleware can carry large images', 'input'
    OUTPUT = 'output', ERROR, 'where images come, results are published', 'pairing'
    DEVICE = 'device', ERROR, 'the device computes, and transitions succeed', 'device'
    ENGINE = 'engine', ERROR, 'matching ends without an error', 'device'
    CONFIGURATION = 'configuration', WARN, 'new parameters can be applied', 'device'
    NAME = 'name', WARN, 'no other node has the same name', 'device'
    MEMORY = 'memory', WARN, 'memory is locked where lock_memory asks for it', 'device'
    EXECUTOR = 'executor', ERROR, 'callbacks end without an error', 'device'
    DIAGNOSTICS = 'diagnostics', ERROR, 'measuring and reporting end without an error', 'device'
    PUBLISHED_INSTEAD = (
        'published instead', WARN, 'the camera publishes the topics that the node takes', 'log')

    @property
    def can_be_ignored(self) -> bool:
        """Whether ``ignored_checks`` may name it: a person may know better than what warns of a
        pair, and than what its content alone rejects."""
        return self.scope == 'pair' and (
            self.level is WARN or self is IssueCode.EXCHANGED_IMAGES)

    def issue(self, text: str, weight: float = 0.0) -> Issue:
        """An issue of this code, at its level."""
        return Issue(self, self.level, text, weight)

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class Issue:
    """Something is wrong.

    text:   a sentence with the value, what it should be, and what to set.
    weight: of several issues of one code the one of maximum weight is reported.
    """

    code: IssueCode
    level: IssueLevel
    text: str
    weight: float = 0.0

    def __str__(self) -> str:
        return self.text + (f' [{self.code}]' if self.code.can_be_ignored else '')

    def to_dict(self) -> dict[str, str]:
        """For JSON."""
        return {'code': self.code.value, 'level': str(self.level), 'text': self.text}


def summarise(pairs: Iterable[Iterable[Issue]]) -> Iterator[tuple[Issue, int]]:
    """Of each code the issue of maximum weight, and how many pairs have any of it."""
    by_code: dict[IssueCode, dict[int, list[Issue]]] = {}
    for number, issues in enumerate(pairs):
        for one in issues:
            by_code.setdefault(one.code, {}).setdefault(number, []).append(one)
    for of_pairs in by_code.values():
        yield max(itertools.chain(*of_pairs.values()), key=lambda one: one.weight), len(of_pairs)
