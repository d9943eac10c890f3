"""Packets of RTPS that no participant sends, from a stranger without keys: frames go on.

What stops Fast DDS 3.2.3 itself is left out (docs/howto/security.md): a GAP and a HEARTBEAT over
very many numbers, a fragment of a very large message, and a burst of wrong endpoints.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import random
import re
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

pytest.importorskip('rclpy')

from stereo_bp_ros import distributions
from test import machine
from test.node.client import Client
from test.node.processes import running_node

pytestmark = pytest.mark.ros

W, H = 96, 64
PARAMETERS = {'stereo_algorithm': 'sad', 'disparity_range': 16, 'max_input_age': 30.0}

#: Bytes that the node's resident memory may keep of the packets.
MAX_GROWTH = 256 * 2**20

# Submessages, parameters and entities of the RTPS specification 2.3, 8.3.7, 9.3.1.2 and 9.6.2.2.
ACKNACK, HEARTBEAT, GAP, NACK_FRAG, HEARTBEAT_FRAG, DATA, DATA_FRAG = 6, 7, 8, 18, 19, 21, 22
SENTINEL, LEASE, PROTOCOL, VENDOR, LOCATOR, META_LOCATOR, PARTICIPANT, BUILTIN, NAME = (
    1, 2, 0x15, 0x16, 0x31, 0x32, 0x50, 0x58, 0x62)
NONE = bytes(4)
PARTICIPANT_WRITER = b'\0\1\0\xc2'
#: Reader of the node and writer of the stranger, by which endpoints become known.
ENDPOINTS = (b'\0\0\3\xc7', b'\0\0\3\xc2'), (b'\0\0\4\xc7', b'\0\0\4\xc2')


def submessage(kind: int, body: bytes, flags: int = 1, length: int | None = None) -> bytes:
    return struct.pack('<BBH', kind, flags, len(body) if length is None else length) + body


def parameter(number: int, value: bytes = b'', length: int | None = None) -> bytes:
    value += bytes(-len(value) % 4)
    return struct.pack('<HH', number, len(value) if length is None else length) + value


def sequence(number: int) -> bytes:
    return struct.pack('<iI', number >> 32, number & 0xffffffff)


def data(reader: bytes, writer: bytes, number: int, parameters: bytes) -> bytes:
    return submessage(DATA, struct.pack('<HH', 0, 16) + reader + writer + sequence(number)
                      + b'\0\3\0\0' + parameters + parameter(SENTINEL), flags=5)


def peer_of(entity: bytes) -> bytes:
    """The writer for a reader, and the other way round."""
    return entity[:3] + (b'\xc2' if entity[3:] == b'\xc7' else b'\xc7')


def kinds_of(packet: bytes) -> set[int]:
    """Submessages of a packet, as their lengths say."""
    found, place = set(), 20
    while place + 4 <= len(packet):
        kind, flags = packet[place:place + 2]
        found.add(kind)
        length, = struct.unpack('<H' if flags & 1 else '>H', packet[place + 2:place + 4])
        place += 4 + length if length else len(packet)
    return found


def would_stop(packet: bytes) -> bool:
    """Whether it is of those that Fast DDS takes too much time or memory for."""
    return bool(kinds_of(packet) & {GAP, HEARTBEAT, DATA_FRAG})


class Stranger:
    """A participant made of one socket: the node sends it what it sends to every participant."""

    def __init__(self, domain: int) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(('127.0.0.1', 0))
        self.socket.settimeout(0.2)
        #: Of the first participant of a domain: for discovery, and for messages of topics.
        self.ports = (7400 + 250 * domain + 10, 7400 + 250 * domain + 11)
        self._numbers = itertools.count(1)
        self.prefix = self.new_prefix()
        #: What the node has sent to it when it asked, and what it was called then.
        self.heard: list[bytes] = []
        self.told = b''

    def new_prefix(self) -> bytes:
        return b'\1\x0f' + struct.pack('<QH', next(self._numbers), 7)

    def packet(self, *submessages: bytes, prefix: bytes = b'') -> bytes:
        return b'RTPS\2\3\1\x0f' + (prefix or self.prefix) + b''.join(submessages)

    def participant(self, prefix: bytes, more: bytes = b'') -> bytes:
        """As a participant announces itself."""
        locator = struct.pack('<iI12x4B', 1, self.socket.getsockname()[1], 127, 0, 0, 1)
        return self.packet(data(NONE, PARTICIPANT_WRITER, 1, b''.join((
            parameter(PROTOCOL, b'\2\3'), parameter(VENDOR, b'\1\x0f'),
            parameter(PARTICIPANT, prefix + b'\0\0\1\xc1'), parameter(META_LOCATOR, locator),
            parameter(LOCATOR, locator), parameter(LEASE, struct.pack('<II', 20, 0)),
            parameter(BUILTIN, struct.pack('<I', 0xc3f)), more))), prefix=prefix)

    def send(self, packet: bytes, port: int) -> None:
        with contextlib.suppress(OSError):      # the node reads more slowly than this writes
            self.socket.sendto(packet, ('127.0.0.1', port))

    def genuine(self) -> list[bytes]:
        """What the node has sent to this one, as if this one had sent it to the node."""
        node = self.heard[0][8:20]
        return [packet[:8] + self.prefix + node.join(
            part.replace(node, self.prefix) for part in packet[20:].split(self.told))
            for packet in self.heard if not would_stop(packet)]

    def listen(self) -> Iterator[bytes]:
        """What the node sends, until it sends no more."""
        with contextlib.suppress(TimeoutError):
            while True:
                yield self.socket.recv(65536)

    def be_known(self) -> bool:
        """Whether the node greets a new participant: it has read all that came before."""
        self.prefix = self.new_prefix()
        self.send(self.participant(self.prefix), self.ports[0])
        # Its answer names the one that it is for.
        return any(self.prefix in packet[20:] for packet in self.listen())

    def hear_endpoints(self) -> bool:
        """Whether the node tells of its topics, when it is asked for the first ten."""
        for reader, writer in ENDPOINTS:
            self.send(self.packet(submessage(
                ACKNACK, peer_of(writer) + peer_of(reader) + sequence(1)
                + struct.pack('<3I', 10, 2**32 - 1, next(self._numbers)))), self.ports[0])
        self.told, self.heard = self.prefix, [*self.heard, *self.listen()]
        return sum(DATA in kinds_of(packet) and any(
            peer_of(reader) in packet for reader, _ in ENDPOINTS) for packet in self.heard) >= 10


def random_bytes(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    for number in range(400):
        junk = chance.randbytes(chance.choice((0, 1, 4, 19, 20, 24, 40, 100, 500, 1400)))
        yield stranger.packet(junk) if number % 2 else junk


def cut(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    genuine = stranger.genuine()
    for _ in range(400):
        packet = chance.choice(genuine)
        yield packet[:chance.randrange(len(packet))]


def changed(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    words = [struct.pack('<I', word) for word in (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0xffff)]
    genuine = stranger.genuine()
    for _ in range(800):
        packet = bytearray(chance.choice(genuine))
        for _ in range(chance.randint(1, 6)):
            place = chance.randrange(20, len(packet) - 4)
            packet[place:place + 4] = chance.choice((
                chance.choice(words), chance.randbytes(1) + packet[place + 1:place + 4], b''))
            if len(packet) < 40:
                break
        if not would_stop(packet):
            yield bytes(packet)


def wrong_lengths(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    for packet in stranger.genuine()[:20]:
        for length in (0, 1, 3, 4, 12, 20, 23, 24, len(packet), 2**15, 2**16 - 4, 2**16 - 1):
            for place in (20, 32):
                yield packet[:place + 2] + struct.pack('<H', length) + packet[place + 4:]


def fragments(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    for size in (0, 1, 100, 2**16, 2**20):
        for number, (first, count, length) in enumerate((
                (1, 1, 65000), (1, 1, 0), (1, 65535, 1), (2**32 - 1, 1, 65535), (0, 1, 1400),
                (2**31 - 1, 65535, 4), (1, 65535, 65535)), 1):
            for reader, writer in ((NONE, PARTICIPANT_WRITER), *ENDPOINTS):
                yield stranger.packet(submessage(
                    DATA_FRAG, struct.pack('<HH', 0, 28) + reader + writer + sequence(number)
                    + struct.pack('<IHHI', first, count, length, size) + bytes(1000)))


def wrong_numbers(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    counts = itertools.count(1)
    for reader, writer in ENDPOINTS:
        for first, last in ((0, 0), (-1, 5), (5, 1), (3, 100), (1, 2**31), (1, 2**62)):
            yield stranger.packet(submessage(HEARTBEAT, reader + writer + sequence(first)
                                             + sequence(last) + struct.pack('<I', next(counts))))
        asked = peer_of(writer) + peer_of(reader)
        for bits, base in itertools.product((0, 1, 31, 256, 257, 2**32 - 1), (0, 1, 2**60)):
            end = b'\xff' * 32 + struct.pack('<I', next(counts))
            yield stranger.packet(submessage(
                ACKNACK, asked + sequence(base) + struct.pack('<I', bits) + end))
            yield stranger.packet(submessage(
                NACK_FRAG, asked + sequence(base) + struct.pack('<II', 1, bits) + end))
            yield stranger.packet(submessage(HEARTBEAT_FRAG, reader + writer + sequence(base)
                                             + struct.pack('<II', 2**32 - 1, next(counts))))


def wrong_parameters(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    for name, length, value in itertools.product(
            (*range(0, 0x80, 3), 0x50, 0x58, 0x62, 0x800f, 0x8010, 0x8015), (None, 4, 2**16 - 1),
            (b'', struct.pack('<I', 2**32 - 1) + b'a' * 20, b'\xff' * 400)):
        yield stranger.participant(stranger.new_prefix(), parameter(name, value, length))


def many_participants(stranger: Stranger, chance: random.Random) -> Iterator[bytes]:
    name = parameter(NAME, struct.pack('<I', 40_000) + b'x' * 39_999 + b'\0')
    for number in range(200):
        yield stranger.participant(stranger.new_prefix(), name if number % 10 == 0 else b'')


def resident(process: int) -> int:
    """Bytes of memory that it has now."""
    lines = pathlib.Path(f'/proc/{process}/status').read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmRSS'))


@pytest.fixture(scope='module')
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Of a node of its own, which strangers may leave anything with."""
    with running_node(tmp_path_factory.mktemp('node'), PARAMETERS) as node, \
            contextlib.closing(Client(node.domain)) as client:
        client.node_process = node
        client.connect()
        yield client


@pytest.fixture(scope='module')
def stranger(client: Any) -> Iterator[Stranger]:
    stranger = Stranger(client.node_process.domain)
    with stranger.socket:
        client.wait_until(stranger.be_known, what='a greeting')
        client.wait_until(stranger.hear_endpoints, what='topics')
        yield stranger


@pytest.mark.parametrize('hostile', [
    random_bytes, cut, changed, wrong_lengths, fragments, wrong_numbers, wrong_parameters,
    many_participants])
def test_frames_go_on_beside_hostile_packets(
        client: Any, stranger: Stranger, textured_pair: Callable[..., Any],
        hostile: Callable[[Stranger, random.Random], Iterable[bytes]]) -> None:
    process = client.node_process.process
    before = resident(process.pid)
    for number, packet in enumerate(hostile(stranger, random.Random(1))):
        for port in stranger.ports:
            stranger.send(packet, port)
        if number % 20 == 0:
            time.sleep(0.002)           # the node reads them, rather than the kernel drops them
    client.wait_until(lambda: process.poll() is not None or stranger.be_known(),
                      what='a greeting after these packets')
    assert process.poll() is None, f'{process.poll()} {client.log()[-800:]}'
    client.match(*textured_pair(W, H, 5))
    client.wait_until(lambda: resident(process.pid) - before < MAX_GROWTH, what='memory again')


def test_a_profile_closes_the_ports_to_other_machines(
        repository: pathlib.Path, tmp_path: pathlib.Path, start_node: Any) -> None:
    page = (repository / 'docs/howto/security.md').read_text(encoding='utf-8')
    interfaces, = re.findall('^```xml\n(.*?)^```', page, re.MULTILINE | re.DOTALL)
    profile = (repository / 'config/fastdds_large_images.xml').read_text(encoding='utf-8')
    kind = '<type>UDPv4</type>\n'
    (tmp_path / 'profile.xml').write_text(profile.replace(kind, kind + interfaces))
    node = start_node(PARAMETERS, environment={
        distributions.profile_variable(): str(tmp_path / 'profile.xml')})
    bound = {int(port, 16): address for address, port in (
        line.split()[1].split(':') for line in pathlib.Path('/proc/net/udp').read_text()
        .splitlines()[1:])}
    ports = machine.ports_in_use(node.domain)
    assert len(ports) >= 2
    assert {bound[port] for port in ports} == {'0100007F'}          # 127.0.0.1
