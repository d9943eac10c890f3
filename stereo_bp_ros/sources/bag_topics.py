"""The stereo topics of a bag, found by the names that camera drivers give them."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from stereo_bp_ros.cameras.calibration import Calibration
from stereo_bp_ros.errors import StereoError
from stereo_bp_ros.sources.directions import DIRECTION, IN_A_RING, is_in_a_ring
from stereo_bp_ros.sources.natural_order import natural_key

IMAGE = 'sensor_msgs/msg/Image'
COMPRESSED_IMAGE = 'sensor_msgs/msg/CompressedImage'
CAMERA_INFO = 'sensor_msgs/msg/CameraInfo'

DISPARITY_IMAGE = 'stereo_msgs/msg/DisparityImage'
POINT_CLOUD = 'sensor_msgs/msg/PointCloud2'

#: Types of messages that may hold a truth.
TRUTH_TYPES = (IMAGE, COMPRESSED_IMAGE, DISPARITY_IMAGE, POINT_CLOUD)

#: Types of messages with transforms: ROS 2 and 1, and ROS 1 before tf2.
TRANSFORM_TYPES = ('tf2_msgs/msg/TFMessage', 'tf/msg/tfMessage')

#: Exact disparity of the left image as a 16-bit PNG in units of 1/256 pixel, 0 = unknown (the
#: convention of KITTI), in a CompressedImage.
TRUTH_TOPIC = 'ground_truth/disparity/compressed'

#: Topics that are a truth by their names; the first that a bag has counts. A cloud or a depth of
#: another name may come from the very cameras, and is no truth unless the user names it.
TRUTH_TOPICS = (TRUTH_TOPIC, 'ground_truth/disparity', 'ground_truth/depth',
                'ground_truth/depth/compressed', 'ground_truth/depth/compressedDepth')

#: Words that drivers count their cameras with, from 0 or 1 on, with or without a '_'.
_NUMBERED = ('infra', 'fisheye', 'cam', 'camera', 'image')

#: Left and right in the names of topics, in any case of letters. 'l' and 'r' stand alone or
#: between '_'; 'left' also stands within a word.
SIDES = (('lcam', 'rcam'), ('left', 'right'), ('l', 'r'), *(
    (f'{word}{dash}{first}', f'{word}{dash}{first + 1}')
    for word in _NUMBERED for dash in ('', '_') for first in (0, 1)))

#: Words for images that are made from those of the cameras.
_DERIVED = ('depth', 'disparity', 'confidence', 'mask', 'segmentation', 'semantic', 'normals')

_ADVICE = 'name the one to use with --left and --right (launch: left_image:=, right_image:=)'
_INFO_ADVICE = 'name it with --{side}-info (launch: {side}_info:=)'

#: Suffixes of the files in a rosbag2 folder, each of which is a bag, too, and of one that was
#: compressed as a whole.
_FILES, COMPRESSED = ('.mcap', '.db3'), '.zstd'

#: Names of the files of a recording, as rosbag2 wrote them first, and as it does since 2026.
_PART = re.compile(r'(?P<name>.+)_(?P<number>[0-9]{1,9})')
_PART_WITH_TIME = re.compile(
    r'(?P<number>[0-9]{1,9})_(?P<name>.+)_[0-9]{4}_[0-9]{2}_[0-9]{2}-[0-9]{2}_[0-9]{2}_[0-9]{2}')

#: A ROS 1 bag, and one whose recording was not ended.
ROS1_SUFFIXES = ('.bag', '.bag.active')


def is_bag(path: pathlib.Path) -> bool:
    """Whether a path is a rosbag2 folder, a file of one, or a ROS 1 bag file, by its name."""
    if path.is_dir():
        return (path / 'metadata.yaml').is_file() or bool(storage_files(path))
    return path.name.endswith(ROS1_SUFFIXES) or is_storage(path)


def is_storage(path: pathlib.Path) -> bool:
    """Whether a file has the name of one of rosbag2."""
    return plain_name(path).suffix in _FILES


def plain_name(path: pathlib.Path) -> pathlib.Path:
    """The name of a file before it was compressed."""
    return path.with_suffix('') if path.suffix == COMPRESSED else path


def storage_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """The files of one recording in a folder without metadata.yaml, as they were written.

    Several are one recording where their names differ in their numbers; else [].
    """
    files = [file for file in folder.iterdir()
             if is_storage(file) and not file.name.startswith('.')]
    parts = {file: part_of(file) for file in files}
    if len({part.recording for part in parts.values()}) != 1 or len(set(parts.values())) < len(
            files):
        return []
    return sorted(files, key=lambda file: (parts[file].number, natural_key(file.name)))


class Part(NamedTuple):
    """Which file of a recording one is by its name: NAME_3.mcap, or 3_NAME_TIME.mcap.

    recording: the name without number and time, with the suffix.
    number:    from 0 on; -1 = the name has none.
    """

    recording: str
    number: int


def part_of(file: pathlib.Path) -> Part:
    """Recording and number of a file."""
    plain = plain_name(file)
    found = _PART_WITH_TIME.fullmatch(plain.stem) or _PART.fullmatch(plain.stem)
    return Part(f'{found["name"] if found else plain.stem}{plain.suffix}',
                int(found['number']) if found else -1)


def name_of_first_part(file: pathlib.Path) -> str:
    """The name of the first file of a recording where this is a later one, else ''."""
    part = part_of(file)
    if part.number <= 0:
        return ''
    firsts = [other.name for other in file.parent.iterdir() if part_of(other) == part._replace(
        number=0)]
    if firsts or _PART_WITH_TIME.fullmatch(plain_name(file).stem):
        return firsts[0] if firsts else f'0_{part.recording}'
    return f'{pathlib.PurePath(part.recording).stem}_0{"".join(file.suffixes[-2:])}'


#: Most grey levels that one pixel of disparity can be, and more disparities than there are.
MAX_SCALE = 65535


class Globs(NamedTuple):
    """Patterns of files, relative to their folder; pairs have equal numbers in their names.

    truth:       of the ground truth; '' = in disparity/ by the name of the left image.
    """

    left: str
    right: str
    truth: str = ''


@dataclasses.dataclass(frozen=True)
class StereoTopics:
    """Names of the topics of a pair in a bag; '' = not named, or (``truth``) there is none.

    truth_tolerance_s: most seconds between the stamps of a pair and of its truth.
    truth_scale: numbers of a truth per pixel of disparity, or per metre of depth; below 0 they
        have the other sign; None = as its format or layout has it.
    rectified: whether the images are rectified: 'yes', 'no', or 'auto', which measures it where
        their camera_info describes a camera that distorts.
    tolerance_s:       most seconds between the stamps of the images of a pair, also of a folder
                       of stamped images; 0 = they have to be equal.
    globs:             patterns of the files of a folder; None = a layout of ``datasets``.
    calibration:       path of the calibration of rectified images, in place of theirs; '' = none.
    rectification:     path of D, K, R and P, by which raw images are rectified; '' = none.
    assumed:           calibration of the rectified images of a bag that has none.
    side_by_side:      how both images of a pair lie in one (``side_by_side.LAYOUTS``), which
                       ``left_image`` names; ``right_image`` is ''. So is ``right_info`` where one
                       camera_info is of both. '' = each image is one of its own.
    """

    left_image: str = ''
    right_image: str = ''
    left_info: str = ''
    right_info: str = ''
    truth: str = ''
    truth_tolerance_s: float = dataclasses.field(default=0.01, kw_only=True)
    truth_scale: float | None = dataclasses.field(default=None, kw_only=True)
    rectified: str = dataclasses.field(default='auto', kw_only=True)
    tolerance_s: float = dataclasses.field(default=0.0, kw_only=True)
    globs: Globs | None = dataclasses.field(default=None, kw_only=True)
    calibration: str = dataclasses.field(default='', kw_only=True)
    rectification: str = dataclasses.field(default='', kw_only=True)
    assumed: Calibration | None = dataclasses.field(default=None, kw_only=True)
    side_by_side: str = dataclasses.field(default='', kw_only=True)

    def roles(self) -> dict[str, str]:
        """Topic name to the node's relative name."""
        found = {self.left_image: 'left/image_rect', self.right_image: 'right/image_rect',
                 self.left_info: 'left/camera_info', self.right_info: 'right/camera_info'}
        return {topic: role for topic, role in found.items() if topic}

    def options(self) -> list[str]:
        """The command-line options of a player that find the same pairs."""
        globs = self.globs or Globs('', '')
        named = {'--left': self.left_image, '--right': self.right_image,
                 '--left-info': self.left_info, '--right-info': self.right_info,
                 '--left-glob': globs.left, '--right-glob': globs.right,
                 '--truth-glob': globs.truth, '--calibration': self.calibration,
                 '--rectify': self.rectification, '--side-by-side': self.side_by_side,
                 '--truth-scale': f'{self.truth_scale:.9g}' if self.truth_scale else '',
                 '--approximate-sync': f'{self.tolerance_s:.9f}' if self.tolerance_s else ''}
        return [word for option, topic in named.items() if topic for word in (option, topic)]


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Two image topics.

    camera:   the left one's name up to the word that says left.
    unlikely: why it is taken only where it is the only pair; '' = it is as good as any.
    """

    left: str
    right: str
    camera: str = ''
    unlikely: str = ''

    def rank(self) -> tuple[bool, bool, int, str]:
        """The smallest is the best of one camera: rectified, then raw, then the plainest name."""
        return (not is_rectified_name(self.left), self.left.endswith('/compressed'),
                len(self.left), self.left)


def find_stereo_topics(topics: Mapping[str, str], named: StereoTopics | None = None,
                       silent: Collection[str] = ()) -> StereoTopics:
    """The stereo topics among topic names and types.

    Of one camera, rectified images win over others, and raw over compressed. Those of camera_info
    are '' where that of a side has no message.

    :param topics: those that have messages.
    :param named: topics that the user has chosen; the others are found.
    :param silent: topics without a message, which an error names.
    :raises StereoError: none or several candidates; the text lists them.
    """
    named = named or StereoTopics()
    images = [topic for topic, kind in sorted(topics.items())
              if kind in (IMAGE, COMPRESSED_IMAGE)]
    infos = [topic for topic, kind in sorted(topics.items()) if kind == CAMERA_INFO]
    if named.side_by_side:
        return _find_side_by_side(topics, images, infos, named, silent)
    chosen = [_resolve(name, images, 'image', silent)
              for name in (named.left_image, named.right_image)]
    pair = _choose(images, topics, chosen[0], chosen[1], silent)
    left, right = ('', '') if named.calibration or named.rectification else (
        _resolve(name, infos, 'camera_info', silent) or _info(image, side, infos, silent)
        for name, image, side in ((named.left_info, pair.left, 'left'),
                                  (named.right_info, pair.right, 'right')))
    if not left or not right:
        left = right = ''
    elif left == right:
        raise StereoError(f'{left} is the only camera_info of {pair.left} and {pair.right}, but '
                          'each camera has its own; name both with --left-info and '
                          '--right-info (launch: left_info:=, right_info:=)')
    return dataclasses.replace(named, left_image=pair.left, right_image=pair.right, left_info=left,
                               right_info=right, truth=_truth(topics, pair, named.truth, silent))


def _find_side_by_side(topics: Mapping[str, str], images: list[str], infos: list[str],
                       named: StereoTopics, silent: Collection[str]) -> StereoTopics:
    """As ``find_stereo_topics``, of one image topic."""
    image = _resolve(named.left_image, images, 'image', silent)
    if not image:
        own = [_Pair(topic, '', topic.removesuffix('/compressed')) for topic in images
               if not topic.strip('/').startswith('ground_truth') and not _is_derived(topic)]
        best = [pair for pair in own if is_rectified_name(pair.left)] or own
        if len({pair.camera for pair in best}) != 1:
            what = 'several image topics' if best else 'no image topic among'
            raise StereoError(f'{what}: {_join([pair.left for pair in best] or topics)}; name the '
                              'side-by-side one with --left')
        image = min(best, key=_Pair.rank).left
    left, right = (_resolve(name, infos, 'camera_info', silent)
                   for name in (named.left_info, named.right_info))
    if right and not left:
        raise StereoError('--right-info needs --left-info')
    if not left and not (named.calibration or named.rectification):
        left, right = _infos_of_both(image, topics, infos, silent)
    return dataclasses.replace(named, left_image=image, left_info=left, right_info=right,
                               truth=_truth(topics, _Pair(image, ''), named.truth, silent))


def _infos_of_both(image: str, topics: Mapping[str, str], infos: list[str],
                   silent: Collection[str]) -> tuple[str, str]:
    """The camera_infos of a side-by-side image: one of each half, or one of both; '' = none."""
    near = _near(image)
    if not {*near}.isdisjoint(silent):
        return '', ''
    pairs = [(pair.left, pair.right) for pair in _pairs(infos, topics)]
    found = [(one, '') for one in near if one in infos] or pairs or [(one, '') for one in infos]
    if len(found) > 1 and found[0][0] not in near:
        raise StereoError(f'several camera_info topics may belong to {image}: {_join(infos)}; '
                          + _INFO_ADVICE.format(side='left'))
    return found[0] if found else ('', '')


def is_rectified_name(topic: str) -> bool:
    """Whether the name of an image topic says that its images are rectified."""
    return 'rect' in topic.lower()


def _choose(images: list[str], types: Mapping[str, str], left: str, right: str,
            silent: Collection[str]) -> _Pair:
    """The pair of image topics, of which one or both may be named already ('' = not)."""
    if left and right:
        if types[left] != types[right]:
            raise StereoError(f'{left} is a {types[left]}, but {right} a {types[right]}')
        return _Pair(left, right)
    pairs = [pair for pair in _pairs(images, types)
             if left in ('', pair.left) and right in ('', pair.right)]
    likely = [pair for pair in pairs if not pair.unlikely]
    cameras: dict[str, _Pair] = {}
    for pair in sorted(likely or pairs, key=_Pair.rank):
        cameras.setdefault(pair.camera, pair)
    best = [pair for pair in cameras.values() if is_rectified_name(pair.left)]
    best = best or list(cameras.values())
    if len(best) == 1 and (left or right or best[0].unlikely != IN_A_RING):
        return best[0]
    if best:
        what = 'several stereo pairs: ' if len(best) > 1 else f'{IN_A_RING}: '
        raise StereoError(what + '; '.join(sorted(f'{pair.left} and {pair.right}'
                                                  for pair in best)) + f'; {_ADVICE}')
    of = f' of {left or right}' if left or right else ''
    raise StereoError(f'no pair of left and right image topics{of} among '
                      f'{_join(images or types)}; {_ADVICE}'
                      + (f'. Without a message are {_join(silent)}' if silent else ''))


def _pairs(images: list[str], types: Mapping[str, str]) -> Iterator[_Pair]:
    """Pairs of image topics that differ in the word for their side."""
    for topic in images:
        if topic.strip('/').startswith('ground_truth'):
            continue
        for left, right in SIDES:
            words = list(_pattern(left).finditer(topic))
            # In /left_arm/camera/left/image the last word is the camera's.
            candidates = [topic[:word.start()] + _in_case_of(word, right) + topic[word.end():]
                          for word in reversed(words)]
            candidates.insert(1, _pattern(left).sub(
                functools.partial(_in_case_of, word=right), topic))
            found = [one for one in candidates if one != topic and types.get(one) == types[topic]]
            if not found:
                continue
            if not _is_derived(topic[words[-1].end():]):
                end = words[-1].end()
                direction = DIRECTION.match(topic, end)
                yield _Pair(topic, found[0], topic[:direction.end() if direction else end],
                            _why_unlikely(topic, words[-1], images))
            break


def _pattern(word: str) -> re.Pattern[str]:
    """Finds a word for a side in the name of a topic."""
    if len(word) == 1:
        return re.compile(rf'(?<![A-Za-z0-9]){word}(?![A-Za-z0-9])', re.IGNORECASE)
    return re.compile(rf'{word}(?!\d)', re.IGNORECASE)


def _in_case_of(found: re.Match[str], word: str) -> str:
    """A word in capitals where the one that was found has them: RIGHT for LEFT."""
    if found[0].isupper():
        return word.upper()
    return word.capitalize() if found[0][0].isupper() else word


def _is_derived(name: str) -> bool:
    return any(word in name.lower() for word in _DERIVED)


def _why_unlikely(topic: str, side: re.Match[str], images: list[str]) -> str:
    """Why a pair is taken only where it is the only one, or must be named; '' = it need not."""
    part = topic[topic.rfind('/', 0, side.start()) + 1:side.start()]
    if _is_derived(part):
        return 'derived'            # depth_left/image of simulators; a namespace says nothing
    return IN_A_RING if side[0].lower() == 'left' and is_in_a_ring(topic, images) else ''


def _info(image: str, side: str, infos: list[str], silent: Collection[str]) -> str:
    """The camera_info of an image topic: below or beside it, or the only one of its side.

    '' where there is none, or the one below or beside it has no message.
    """
    base, near = image.removesuffix('/compressed'), _near(image)
    for one in near:
        if one in infos:
            return one
    if not infos or not {*near}.isdisjoint(silent):
        return ''
    words = [_pattern(pair[side == 'right']) for pair in SIDES]
    found = {info: place for info in infos for word in words
             if word.search(info) and (place := _last_end(word, base))}
    # Of several the one whose name begins with the image's, up to the word for the side.
    own = [info for info, place in found.items() if info.startswith(base[:place])]
    if len(own) > 1:
        own = [info for info in own if info.startswith(base)] or own
    chosen = own or list(found)
    if len(chosen) == 1:
        return chosen[0]
    what = f'several camera_info topics may belong to {image}: {_join(chosen)}' if chosen else \
        f'no camera_info belongs to {image} among {_join(infos)}'
    raise StereoError(f'{what}; {_INFO_ADVICE.format(side=side)}')


def _near(image: str) -> tuple[str, str]:
    """The names of a camera_info below and beside an image topic."""
    base = image.removesuffix('/compressed')
    return f'{base}/camera_info', base.rpartition('/')[0] + '/camera_info'


def _last_end(word: re.Pattern[str], topic: str) -> int:
    """Where the last of these words in a topic ends; 0 = there is none."""
    return max((found.end() for found in word.finditer(topic)), default=0)


def _truth(topics: Mapping[str, str], pair: _Pair, name: str, silent: Collection[str]) -> str:
    """The topic of the truth: the one of this name, else one of ``TRUTH_TOPICS``, else ''."""
    known = [topic for topic, kind in topics.items()
             if kind in TRUTH_TYPES and topic not in (pair.left, pair.right)]
    found = [topic for wanted in TRUTH_TOPICS for topic in known
             if topic.strip('/') == wanted and topics[topic] != POINT_CLOUD]
    return _resolve(name, known, 'truth', silent) or (found[0] if found else '')


def _resolve(name: str, known: list[str], kind: str, silent: Collection[str] = ()) -> str:
    """A topic as the bag has it, for one that was named with or without the first slash."""
    if not name:
        return ''
    for topic in known:
        if topic.strip('/') == name.strip('/'):
            return topic
    if name.strip('/') in (topic.strip('/') for topic in silent):
        raise StereoError(f'there is no message on {name}')
    raise StereoError(f'there is no {kind} topic {name} among {_join(known)}')


def _join(topics: Iterable[str]) -> str:
    return ', '.join(sorted(topics)) or 'no topics'
