"""What an evaluation says of the rows of its pairs: a line for each sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stereo_bp_ros.cameras.row_estimator import RowState
from stereo_bp_ros.evaluation.results import PairRows, Result

#: Sequences that have a line; of further ones there is their number.
NAMED = 20


@dataclasses.dataclass
class SequenceRows:
    """The rows of one sequence for one matcher; or of pairs that follow no other.

    is_alone:  whether none of the pairs follows another one.
    first:     name of the first pair.
    state:     after the latest pair.
    corrected: corrected pairs; None: ``row_correction`` is measure.
    corrected_px: maximum correction of a pair, pixels; None: as above.
    range_px:  minimum and maximum vertical disparity of the pairs, pixels.
    """

    first: str
    input: str
    matcher: str
    is_alone: bool
    state: RowState
    pairs: int = 0
    corrected: int | None = None
    corrected_px: float | None = None
    range_px: tuple[float, float] = (float('inf'), 0.0)

    def add(self, rows: PairRows) -> None:
        """One more pair."""
        self.pairs += 1
        self.state = rows.state
        if rows.corrected_px is not None:
            self.corrected_px = max(self.corrected_px or 0.0, rows.corrected_px)
            self.corrected = (self.corrected or 0) + bool(rows.corrected_px)
        if rows.state.estimate is not None:
            low, high = self.range_px
            self.range_px = min(low, rows.state.max_px), max(high, rows.state.max_px)

    def join(self, other: SequenceRows) -> None:
        """Take a later pair in that follows none of these, as they follow no other."""
        self.is_alone = True
        self.pairs += other.pairs
        self.state = other.state
        if other.corrected is not None:
            self.corrected_px = max(self.corrected_px or 0.0, other.corrected_px or 0.0)
            self.corrected = (self.corrected or 0) + other.corrected
        self.range_px = (min(self.range_px[0], other.range_px[0]),
                        max(self.range_px[1], other.range_px[1]))

    @property
    def max_px(self) -> float | None:
        """Maximum vertical disparity of all pairs, or of the sequence, pixels; or None."""
        if self.is_alone:
            return self.range_px[1] or None
        return None if self.state.estimate is None else self.state.max_px

    @property
    def text(self) -> str:
        """In words."""
        pairs = f'{self.pairs} pair{"s" * (self.pairs > 1)}'
        if self.is_alone:
            low, high = self.range_px
            text = f'{pairs}, no sequence by stamps, each by itself: ' + (
                f'vertical disparity {low:.2f} to {high:.2f} px' if high else 'unknown')
        else:
            text = f'{pairs} from {self.first} on: {self.state.text}'
        if self.corrected is None:
            return text + ', not corrected (row_correction is measure)'
        if self.corrected:
            return f'{text}, corrected by up to {self.corrected_px:.2f} px in {self.corrected}'
        why = '' if self.is_alone or self.state.estimate is None else self.state.reason
        return text + ', not corrected' + (f' ({why})' if why else '')

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        has_sigma = self.state.estimate is not None and not self.is_alone
        return {'matcher': self.matcher, 'input': self.input, 'first': self.first,
                'pairs': self.pairs, 'corrected': self.corrected, 'each_by_itself': self.is_alone,
                'max_px': self.max_px,
                'sigma_px': self.state.sigma if has_sigma else None, 'text': self.text}


def sequences_of(results: Iterable[Result]) -> list[SequenceRows]:
    """Of every matcher that measures rows, in the order of the pairs."""
    found: dict[str, list[SequenceRows]] = {}
    for result in results:
        for name, figures in result.matchers.items():
            rows = figures.rows
            if rows is None or rows.state == RowState():
                continue
            own = found.setdefault(name, [])
            if rows.begins or not own or own[-1].input != result.input:
                _join_pairs(own)
                own.append(SequenceRows(result.name, result.input, name, rows.is_alone,
                                        rows.state))
            own[-1].add(rows)
    for own in found.values():
        _join_pairs(own)
    return [one for own in found.values() for one in own]


def _join_pairs(sequences: list[SequenceRows]) -> None:
    """Make one of the last two where each is of pairs that follow no other."""
    if len(sequences) < 2:
        return
    one, other = sequences[-2:]
    if one.input == other.input and all(each.is_alone or each.pairs == 1 for each in (one, other)):
        sequences.pop()
        one.join(other)


def words(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of ``SequenceRows.to_dict``: what several matchers find is said once."""
    texts: dict[str, list[str]] = {}
    for one in rows:
        where = f'{one["input"]}, ' if one['input'] else ''
        texts.setdefault(where + one['text'], []).append(one['matcher'])
    matchers = {one['matcher'] for one in rows}
    lines = [(f'{", ".join(names)}: ' if len(names) < len(matchers) else '') + text
             for text, names in texts.items()]
    more = len(lines) - NAMED
    return lines[:NAMED] + [f'{more} further sequences: --json'] * (more > 0)
