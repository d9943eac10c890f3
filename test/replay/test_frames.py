"""What became of every frame of a run, and when that is final."""

from __future__ import annotations

import pathlib
import socket
import types
from typing import Any

import pytest
import yaml

from stereo_bp_ros.replay import frames, session
from test.machine import ports_in_use

SENT = {'left': 12, 'right': 12}


def told(left: int = 0, right: int = 0, pairs: int = 0, published: int = 0, **drops: int
         ) -> dict[str, int]:
    """Counters of a node; ``pairs_stale=2`` stands for 'dropped pairs: stale'."""
    return {'received left': left, 'received right': right, 'pairs': pairs,
            'published': published, 'held': 0, 'dropped left: unmatched': 0,
            'dropped pairs: stale': 0,
            **{'dropped {}: {}'.format(*key.split('_')): count for key, count in drops.items()}}


def test_counters_are_those_of_the_status_pairing() -> None:
    status = [types.SimpleNamespace(name=f'/robot/stereo_bp: {name}', values=[
        types.SimpleNamespace(key=key, value=value) for key, value in values.items()])
        for name, values in {'input': {'bad input: bad step': '3'},
                             'pairing': {'published': '7', 'state': 'active'}}.items()]
    assert frames.counters(types.SimpleNamespace(status=status)) == {'published': 7}
    assert frames.counters(types.SimpleNamespace(status=status[:1])) == {}


@pytest.mark.parametrize(('now', 'recorded', 'expected'), [
    (told(12, 12, 12, 12), 12, {}),
    (told(12, 12, 12, 10, pairs_stale=2), 10, {'dropped': {'stale': 2}}),
    (told(11, 12, 11, 11), 11, {'lost_to_node': 1}),
    (told(12, 11, 11, 11), 11, {'lost_to_node': 1}),
    (told(11, 11, 10, 10), 10, {'lost_to_node': 2}),        # one of each side
    (told(12, 11, 11, 11, left_unmatched=1), 11, {'dropped': {'unmatched': 1}}),
    (told(12, 12, 12, 12), 9, {'lost_from_node': 3}),
    (told(12, 12, 12, 11), 11, {'in_progress': 1})])
def test_every_frame_is_in_one_place(now: dict[str, int], recorded: int, expected: dict[str, Any]
                                     ) -> None:
    found = frames.account(SENT, recorded, told(), now)
    names = ('dropped', 'lost_to_node', 'lost_from_node', 'in_progress', 'waiting')
    assert {name: found[name] for name in names if found[name]} == expected
    assert found['lost_in_transport'] == found['lost_to_node'] + found['lost_from_node']
    assert found['sent'] == (found['published'] + sum(found['dropped'].values())
                             + found['lost_to_node'] + found['in_progress'] + found['waiting'])
    assert found['published'] == found['recorded'] + found['lost_from_node']


def test_an_image_whose_partner_was_never_sent_is_not_lost_and_what_others_sent_not_counted(
        ) -> None:
    """Nor is an image of theirs that waited and was dropped since."""
    found = frames.account({'left': 13, 'right': 12}, 12, told(), told(13, 12, 12, 12))
    assert (found['waiting'], found['lost_in_transport']) == (1, 0)
    found = frames.account(SENT, 12, told(5, 4, 4, 4), told(17, 16, 16, 16, left_unmatched=1))
    assert (found['received'], found['published'], found['lost_in_transport']) == (12, 12, 0)


def test_a_run_is_over_when_all_is_recorded_or_nothing_has_changed_for_long_enough() -> None:
    def ends(*reports: tuple[float, dict[str, int], int]) -> list[bool]:
        settling = frames.Settling(SENT, told(), 5.0)
        return [settling.is_over(*report) for report in reports]

    partly, done = told(12, 12, 12, 11), told(12, 12, 12, 11, pairs_stale=1)
    assert ends((0, partly, 11), (60, partly, 11), (61, done, 10), (62, {**done, 'held': 1}, 11),
                (63, done, 11)) == [False] * 4 + [True]
    lost = told(11, 12, 11, 11)
    assert ends((0, told(10, 11, 10, 10), 10), (4, lost, 10), (8, lost, 11), (9, lost, 11),
                (12.9, lost, 11), (13, lost, 11)) == [False] * 5 + [True]


def test_a_run_chooses_a_domain_that_nobody_on_this_machine_is_in(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Results of another run would be recorded with its own."""
    monkeypatch.delenv('ROS_DOMAIN_ID', raising=False)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as participant:
        for busy in range(100, 0, -1):
            try:
                participant.bind(('127.0.0.1', 7400 + 250 * busy + 10))
                break
            except OSError:
                continue
        monkeypatch.setattr('random.SystemRandom.sample', lambda *_: [
            busy, *(number for number in range(1, 101) if number != busy)])
        chosen = int(session.private_environment()['ROS_DOMAIN_ID'])
    assert chosen != busy
    assert not ports_in_use(chosen)


def test_the_page_on_losing_no_frame_has_the_parameters_of_a_run(repository: pathlib.Path) -> None:
    text = (repository / 'docs/howto/recordings.md').read_text()
    block = text.split('## Lose no frame')[1].split('```yaml\n')[1].split('```')[0]
    flat: dict[str, Any] = {}

    def flatten(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                flatten(f'{name}.{key}' if name else key, inner)
        else:
            flat[name] = value

    flatten('', yaml.safe_load(block)['/**']['ros__parameters'])
    # The root has two names.
    assert flat == session.reliable_overrides() == session.reliable_overrides('')
    assert {name.replace('overrides.', 'overrides./robot') for name in flat} == set(
        session.reliable_overrides('/robot'))
