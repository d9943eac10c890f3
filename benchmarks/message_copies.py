"""Every copy of an image between a publisher's and a subscriber's Python, with its time.

    python -m benchmarks.message_copies
    python -m benchmarks.message_copies --size 640x480x64 --variants shipped asynchronous

The first table times each copy alone, through the functions that rclpy itself calls: from a Python
message to the C structure, from there to bytes, and back. The second sends DisparityImages from
one process to another, with settings of Fast DDS and of the C library in turn, and counts what
matters: from the stamp to the listener, and how long publish() keeps its caller.
"""

from __future__ import annotations

import array
import ctypes
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import common
from stereo_bp_ros import distributions, transport

#: Seconds that a listener waits for what has been sent.
LIMIT_S = 20.0

_WRITER = """
    <data_writer profile_name="measured" is_default_profile="true">
      <qos><publishMode><kind>{mode}</kind></publishMode></qos>
      <historyMemoryPolicy>{policy}</historyMemoryPolicy>
    </data_writer>"""


@dataclasses.dataclass(frozen=True)
class Variant:
    """What differs from the shipped profile, and whether malloc keeps what is freed.

    added, removed: text of the profile; a writer that is added makes ROS read it, too.
    """

    added: str = ''
    removed: str = ''
    keeps: bool = True


_AS_ROS = 'PREALLOCATED_WITH_REALLOC'
VARIANTS = {
    'memory given back': Variant(keeps=False),
    'shipped': Variant(),
    'asynchronous': Variant(_WRITER.format(mode='ASYNCHRONOUS', policy=_AS_ROS)),
    'reused payloads': Variant(_WRITER.format(mode='SYNCHRONOUS', policy='DYNAMIC_REUSABLE')),
    'without UDP': Variant(removed='          <transport_id>udp</transport_id>\n')}


def main() -> int:
    """Run the benchmark, or one of its two processes."""
    parser = common.parser(__doc__)
    common.add_sizes(parser, common.VGA, common.HD)
    common.add_frames(parser, 60, of='of every variant in a round')
    parser.add_argument('--rounds', type=int, default=4, metavar='N', help='default 4')
    parser.add_argument('--rate', type=float, default=30.0, metavar='HZ', help='default 30')
    parser.add_argument('--variants', nargs='+', choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument('--role', choices=('talker', 'listener'), help='one of the processes')
    common.add_output(parser)
    options = parser.parse_args()
    if options.role:
        return {'talker': talk, 'listener': listen}[options.role]()
    transport.prepare()
    transport.keep_freed_memory()
    common.print_machine()
    copies = {str(size): timed_copies(size) for size in options.size}
    common.print_head('bytes', 'copy', 'us', 'GB/s')
    for size in options.size:
        for name, count, us in copies[str(size)]:
            common.print_row(f'{count}', name, f'{us:.0f}', f'{count / us / 1e3:.1f}')
    sent = sent_under(options)
    common.print_head('image', 'variant', 'sent, heard', 'publish p50', 'stamp to listener p50',
                      'p95', 'p99', 'in each round')
    for (size_name, name), rounds in sent.items():
        every = common.percentiles([ms for one in rounds for ms in one['end_to_end_ms']])
        publish = common.percentiles([ms for one in rounds for ms in one['publish_ms']])
        assert every
        assert publish
        common.print_row(
            size_name, name, f'{sum(one["sent"] for one in rounds)}, '
            f'{sum(len(one["end_to_end_ms"]) for one in rounds)}', f'{publish["p50"]:.2f}',
            *(f'{every[p]:.2f}' for p in ('p50', 'p95', 'p99')),
            ', '.join(f'{np.median(one["end_to_end_ms"]):.2f}' for one in rounds))
    common.write_report(options.output, copies=copies,
                        sent=[{'size': key[0], 'variant': key[1], 'rounds': rounds}
                              for key, rounds in sent.items()])
    return 0


# --- copies, one by one ---------------------------------------------------------------------


class _Functions:
    """What rclpy calls for a type of message: its own functions, in capsules of the class."""

    def __init__(self, kind: Any) -> None:
        kind.__import_type_support__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

        def function(capsule: Any, result: Any, *arguments: Any) -> Callable[..., Any]:
            return ctypes.PYFUNCTYPE(result, *arguments)(pointer(capsule, None))

        self.create = function(kind._CREATE_ROS_MESSAGE, ctypes.c_void_p)
        self.destroy = function(kind._DESTROY_ROS_MESSAGE, None, ctypes.c_void_p)
        self.from_python = function(kind._CONVERT_FROM_PY, ctypes.c_bool, ctypes.py_object,
                                    ctypes.c_void_p)
        self.to_python = function(kind._CONVERT_TO_PY, ctypes.py_object, ctypes.c_void_p)


def timed_copies(size: common.Size) -> list[tuple[str, int, float]]:
    """Name, bytes and median microseconds of every copy of a mono8 image and its disparity."""
    from rclpy.serialization import deserialize_message, serialize_message
    from sensor_msgs.msg import Image
    from stereo_msgs.msg import DisparityImage

    found: list[tuple[str, int, float]] = []
    for kind, words, pixel_bytes in ((Image, 'mono8 image', 1),
                                     (DisparityImage, 'disparity', 4)):
        message = kind()
        carrier = message.image if kind is DisparityImage else message
        carrier.width, carrier.height = size.width, size.height
        carrier.step = size.width * pixel_bytes
        count = carrier.step * size.height
        carrier.data = array.array('B', bytes(count))
        functions = _Functions(kind)
        # A structure is new for every message: its pages, too.
        structures: list[int] = []

        def convert(functions: _Functions = functions, message: Any = message,
                    structures: list[int] = structures) -> None:
            structures.append(functions.create())
            assert functions.from_python(message, structures[-1])

        def discard(functions: _Functions = functions,
                    structures: list[int] = structures) -> None:
            while structures:
                functions.destroy(structures.pop())

        convert()
        kept = structures.pop()
        data = serialize_message(message)
        target = np.empty(count, np.uint8)
        source = np.frombuffer(carrier.data, np.uint8)
        times = common.in_turn({
            'copy by NumPy': functools.partial(np.copyto, target, source),
            'Python to C structure': convert, '': discard,
            'C structure to Python': functools.partial(functions.to_python, kept),
            'Python to CDR bytes': functools.partial(serialize_message, message),
            'CDR bytes to Python': functools.partial(deserialize_message, data, kind),
        }, 60)
        functions.destroy(kept)
        found += [(f'{words}: {name}', count, float(np.median(values)) * 1e3)
                  for name, values in times.items() if name]
    return found


# --- over DDS -------------------------------------------------------------------------------


def sent_under(options: Any) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Rounds of every size and variant, in turn."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {
        (str(size), name): [] for size in options.size for name in options.variants}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: _profile(pathlib.Path(folder), name) for name in options.variants}
        for _ in range(options.rounds):
            for size in options.size:
                for name in options.variants:
                    found[str(size), name].append(_round(
                        files[name], {'width': size.width, 'height': size.height,
                                      'frames': options.frames, 'rate': options.rate},
                        VARIANTS[name]))
    return found


def _profile(folder: pathlib.Path, name: str) -> pathlib.Path:
    text = transport.LARGE_IMAGES.read_text(encoding='utf-8')
    variant = VARIANTS[name]
    assert variant.removed in text
    text = text.replace(variant.removed, '', 1).replace('\n  </profiles>',
                                                        f'{variant.added}\n  </profiles>')
    path = folder / f'{name.replace(" ", "_")}.xml'
    path.write_text(text, encoding='utf-8')
    return path


def _round(profile: pathlib.Path, task: dict[str, Any], variant: Variant) -> dict[str, Any]:
    environment = {**os.environ, 'ROS_AUTOMATIC_DISCOVERY_RANGE': 'LOCALHOST',
                   'STEREO_BP_TASK': json.dumps(task)}
    for name in (*distributions.PROFILE_VARIABLES, *transport.KEPT_MEMORY):
        environment.pop(name, None)
    if variant.keeps:
        environment |= {name: str(size) for name, (_, size) in transport.KEPT_MEMORY.items()}
    environment[distributions.PROFILE_VARIABLES[0]] = str(profile)
    if variant.added:       # or ROS chooses mode and policy itself
        environment |= {'RMW_FASTRTPS_USE_QOS_FROM_XML': '1'}
    roles = {role: subprocess.Popen([sys.executable, '-m', __spec__.name, '--role', role],
                                    env=environment, stdout=subprocess.PIPE, text=True)
             for role in ('listener', 'talker')}
    try:
        answers = {role: json.loads(process.communicate(timeout=120)[0])
                   for role, process in roles.items()}
    finally:
        for process in roles.values():
            process.kill()
            process.wait()
    return {**answers['listener'], **answers['talker']}


def _node(name: str) -> Any:
    import rclpy
    rclpy.init()
    return rclpy.create_node(name)


def _qos() -> Any:
    from rclpy.qos import QoSProfile, ReliabilityPolicy
    return QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)


def _due(frames: int, rate: float) -> Iterator[int]:
    start = time.perf_counter()
    for number in range(frames):
        time.sleep(max(0.0, start + number / rate - time.perf_counter()))
        yield number


def talk() -> int:
    """Publish disparities as the node does: a kept message, its stamp in the header."""
    from stereo_msgs.msg import DisparityImage
    task = json.loads(os.environ['STEREO_BP_TASK'])
    node = _node('talker')
    publisher = node.create_publisher(DisparityImage, 'disparity', _qos())
    deadline = time.monotonic() + LIMIT_S
    while not publisher.get_subscription_count() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.3)         # the listener's side is matched a little later
    message = DisparityImage()
    message.image.width, message.image.height = task['width'], task['height']
    message.image.step = 4 * task['width']
    message.image.data = array.array('B', bytes(message.image.step * task['height']))
    times_ms = []
    for _ in _due(task['frames'], task['rate']):
        stamp = time.time_ns()
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 10**9)
        start = time.perf_counter()
        publisher.publish(message)
        times_ms.append((time.perf_counter() - start) * 1e3)
    time.sleep(1.0)
    print(json.dumps({'sent': task['frames'], 'publish_ms': times_ms}), flush=True)
    return 0


def listen() -> int:
    """Take disparities as a Python subscriber has them: as messages."""
    import rclpy
    from stereo_msgs.msg import DisparityImage
    task = json.loads(os.environ['STEREO_BP_TASK'])
    node = _node('listener')
    late_ms: list[float] = []

    def take(message: Any) -> None:
        stamp = message.header.stamp
        late_ms.append((time.time_ns() - stamp.sec * 10**9 - stamp.nanosec) * 1e-6)

    node.create_subscription(DisparityImage, 'disparity', take, _qos())
    deadline = time.monotonic() + LIMIT_S + task['frames'] / task['rate']
    while len(late_ms) < task['frames'] and time.monotonic() < deadline:
        rclpy.spin_once(node, timeout_sec=0.5)
    print(json.dumps({'end_to_end_ms': late_ms}), flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main())
