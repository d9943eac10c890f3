"""Whoever has not the keys of a cluster gets nothing from it."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
import ssl
from collections.abc import Iterator

import numpy as np
import pytest

pytest.importorskip('numba')
dask = pytest.importorskip('dask')
distributed = pytest.importorskip('distributed')
pytest.importorskip('cryptography')
psutil = pytest.importorskip('psutil')
pytest.importorskip('rosbags')

from stereo_bp_ros import files  # noqa: E402  (needs distributed)
from stereo_bp_ros.cli.main import main  # noqa: E402
from stereo_bp_ros.evaluation import scale  # noqa: E402  (needs distributed)
from test.cases import every  # noqa: E402
from test.evaluation.test_scale import COMMAND  # noqa: E402

#: Seconds. Who is let in is answered at once; nobody else is, however long this is.
PATIENCE_S = 2.0


def listening(*processes: int) -> set[tuple[str, int]]:
    """Addresses of their sockets."""
    return {tuple(connection.laddr) for pid in processes
            for connection in psutil.Process(pid).net_connections('inet')
            if connection.status == psutil.CONN_LISTEN}


@pytest.mark.parametrize(('scheme', 'why'), [
    ('tcp', r'closed|Timed out'), ('tls', 'certificate does not match')])
def test_a_client_without_the_keys_runs_nothing(started, scheme, why):
    others = distributed.Security.temporary() if scheme == 'tls' else None
    _, _, place = started[0].scheduler.rpartition('://')
    with pytest.raises(OSError, match=why):
        distributed.Client(f'{scheme}://{place}', security=others, timeout=PATIENCE_S).close()


def test_sockets_are_of_this_machine_alone_and_none_answers_a_stranger(started, tmp_path):
    _, places = started
    assert len(places) == 3         # scheduler, nanny and worker
    assert {host for host, _ in places} == {'127.0.0.1'}
    pem = tmp_path / 'stranger.pem'
    stranger = distributed.Security.temporary()
    pem.write_text(stranger.tls_client_key + stranger.tls_client_cert)
    answers = [answer(place, keys, b'GET /sitemap.json HTTP/1.0\r\n\r\n')
               for place in places for keys in (None, pem)]
    # The record of TLS that says why it ends the connection.
    assert every(reply == b'' or reply[:1] == b'\x15' for reply in answers), answers


def answer(place: tuple[str, int], keys: pathlib.Path | None, request: bytes) -> bytes:
    """What a stranger's request gets, b'' where the connection ends or stays silent."""
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        connection = opened.enter_context(socket.create_connection(place, PATIENCE_S))
        if keys:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.load_cert_chain(keys)
            connection = opened.enter_context(context.wrap_socket(connection))
        connection.sendall(request)
        return connection.recv(4096)
    return b''


@pytest.mark.parametrize(('scheme', 'encrypted', 'why'), [
    ('tcp', False, 'Timed out'), ('tls', False, 'TLS configuration'),
    ('tcp', True, 'encryption required')])
def test_without_a_scheduler_or_its_keys_the_command_says_so(tmp_path, monkeypatch, capsys, scheme,
                                                             encrypted, why):
    for side in ('left', 'right'):
        (tmp_path / side).mkdir()
        files.write_image(tmp_path / side / '0.png', np.zeros((48, 64), np.uint8))
    monkeypatch.setattr(scale, 'SCHEDULER_TIMEOUT_S', 1)
    with dask.config.set({'distributed.comm.require-encryption': encrypted}):
        assert main([*COMMAND[3:], str(tmp_path), '--scheduler', f'{scheme}://127.0.0.1:1']) == 2
    error = capsys.readouterr().err
    assert f'no worker by the scheduler {scheme}://127.0.0.1:1: ' in error
    assert why in error
    assert error.count('\n') == 1


@pytest.fixture(scope='module')
def started() -> Iterator[tuple[scale.Cluster, set[tuple[str, int]]]]:
    """A cluster, and where the command and its worker listen; plugins of pytest may do so, too."""
    before = listening(os.getpid())
    with scale.Cluster(1) as cluster:
        yield cluster, listening(os.getpid(), *cluster.processes) - before
