"""Frames of a run by the node's own counters: what became of each, and when that is final."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stereo_bp_ros.images.stamps import SIDES

#: Counters of the status ``pairing``: those of images and pairs, and what follows from them.
Counters = Mapping[str, int]


def counters(message: Any) -> dict[str, int]:
    """The counters in a DiagnosticArray of rclpy or rosbags; empty where it has none."""
    return {pair.key: int(pair.value) for status in message.status
            if status.name.endswith(': pairing') for pair in status.values
            if pair.value.isdecimal()}


DEVICE = ('backend', 'device', 'threads', 'pci bus', 'architecture', 'cupy', 'cuda',
          "driver's cuda")
"""What the status ``device`` says of what computes."""


def device(message: Any) -> dict[str, str]:
    """What computes, ``DEVICE`` of a DiagnosticArray; empty where it does not say."""
    return {pair.key: str(pair.value) for status in message.status
            if status.name.endswith(': device') for pair in status.values if pair.key in DEVICE}


_FAILED = re.compile(r'(configuring|activating|the start) failed: ')


def failures(message: Any) -> dict[str, str]:
    """Why nodes cannot become active, by node; '' = this one says nothing of that."""
    found = {status.name.removesuffix(': device'): str(status.message)
             for status in message.status if status.name.endswith(': device')}
    return {name: text if _FAILED.search(text) else '' for name, text in found.items()}


def failure_in(namespace: str, found: Mapping[str, str]) -> str:
    """Which node of a namespace cannot become active, and why; '' = none that is known.

    :param found: of ``failures``, from all that nodes have reported.
    """
    return next((f'{name}: {text}' for name, text in found.items()
                 if text and (name.rpartition('/')[0] or '/') == namespace), '')


def drops(found: Counters, what: str) -> dict[str, int]:
    """By reason, of ``what`` is dropped: 'left', 'right' or 'pairs'."""
    prefix = f'dropped {what}: '
    return {key.removeprefix(prefix): count for key, count in found.items()
            if key.startswith(prefix)}


def waiting(found: Counters, side: str) -> int:
    """Images of a side that are neither paired nor dropped: they wait for their partners."""
    return found[f'received {side}'] - found['pairs'] - sum(drops(found, side).values())


def in_progress(found: Counters) -> int:
    """Pairs that are neither published nor dropped: they are matched or wait for that."""
    return found['pairs'] - found['published'] - sum(drops(found, 'pairs').values())


def account(sent: Mapping[str, int], recorded: int, before: Counters, now: Counters
            ) -> dict[str, Any]:
    """What became of every frame of a run, for a report.

    sent = published + dropped + in_progress + waiting + lost_to_node, and
    published = recorded + lost_from_node. A left image stands for its frame.

    :param sent: images published to the node, by side.
    :param recorded: disparity images that came back.
    :param before: counters before the run; the node may have served others.
    :param now: counters after it.
    """
    new = {key: value - before.get(key, 0) for key, value in now.items()}
    dropped: dict[str, int] = {}
    for what in ('pairs', 'left'):      # an image without a partner is half a pair
        for reason, count in drops(new, what).items():
            if count:
                dropped[reason] = dropped.get(reason, 0) + count
    lost = {side: sent[side] - new[f'received {side}'] for side in SIDES}
    # A left image that waits may miss a right one that was lost, or one that was never sent.
    bereft = min(waiting(now, 'left'), max(0, lost['right']))
    lost_to_node, lost_from_node = lost['left'] + bereft, new['published'] - recorded
    return {'sent': sent['left'], 'sent_right': sent['right'],
            'received': new['received left'], 'received_right': new['received right'],
            'published': new['published'], 'recorded': recorded, 'dropped': dropped,
            'in_progress': in_progress(now), 'waiting': waiting(now, 'left') - bereft,
            'lost_to_node': lost_to_node, 'lost_from_node': lost_from_node,
            'lost_in_transport': lost_to_node + lost_from_node}


class Settling:
    """Decides whether a run has come to its end, from all that is known of it.

    It has as soon as it is complete; else, after a loss, once nothing has been in progress and
    nothing has changed for ``quiet_s`` seconds in which the node has reported.

    :param sent: images published to the node, by side.
    :param before: counters before the run.
    """

    def __init__(self, sent: Mapping[str, int], before: Counters, quiet_s: float) -> None:
        self._sent, self._before, self._quiet_s = sent, before, quiet_s
        self._last: tuple[Counters, int] | None = None
        self._since = 0.0

    def is_over(self, told_s: float, now: Counters, recorded: int) -> bool:
        """Whether the counters that the node reported at a time, in seconds, are its last."""
        # The worker holds a pair for a moment after it is counted.
        is_busy = in_progress(now) or now['held']
        # When all that was sent has arrived and was answered or dropped, nothing can change.
        expected = {f'received {side}': count for side, count in self._sent.items()}
        expected['published'] = recorded
        if not is_busy and all(now[name] - self._before.get(name, 0) == count
                               for name, count in expected.items()):
            return True
        if is_busy or (now, recorded) != self._last:
            self._last, self._since = (now, recorded), told_s
        return told_s - self._since >= self._quiet_s
