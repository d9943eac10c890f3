"""Files of rosbag2 in SQLite for the reader of bags, also where a recording was cut off."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from rosbags.interfaces import Connection

from stereo_bp_ros.bounded import allowed
from stereo_bp_ros.errors import StereoError, shown
from stereo_bp_ros.evaluation.bag_bytes import (
    MAX_MESSAGE_BYTES,
    MAX_TOPICS_BYTES,
    MAX_UNPACKED_BYTES,
    check_size,
    make_connection,
)

#: What SQLite has beside a file whose last changes are not in it yet.
_JOURNALS = ('-wal', '-journal')

#: Bytes of a message that is not too large, else their number; NULL where it is no blob.
_DATA = ("CASE WHEN typeof(data) != 'blob' THEN NULL WHEN length(data) <= ? THEN data "
         'ELSE length(data) END')

#: Steps of SQLite between two looks at a query, and how many one may take besides 10 for each byte
#: of the file. A row has more bytes than steps.
_STEPS, _MAX_STEPS = 10**5, 10**6


class SqliteStorage:
    """One file.

    connections: all topics; the type of one that cannot be read says so.
    note:        a sentence about a file that was cut off; '' = it is whole.
    """

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.connections: list[Connection] = []
        self.note = ''
        self._last_id: int | None = None
        self._opened = contextlib.ExitStack()

    def open(self) -> None:
        """Read the topics, and count their messages.

        :raises StereoError, sqlite3.Error: it is no file of rosbag2, or damaged.
        """
        self._db = self._connected()
        if not self._has('topics', 'id') or not self._has('messages', 'data'):
            raise StereoError('it has no tables of topics and messages')
        definitions = {}
        if self._has('message_definitions', 'topic_type'):
            definitions = {kind: (form, text) for kind, form, text in self._few(
                'SELECT topic_type, encoding, encoded_message_definition '
                'FROM message_definitions')}
        topics = self._few(
            'SELECT id, name, type, serialization_format FROM topics ORDER BY id')
        counts = self._counted()
        self.connections = [
            make_connection(number, str(topic), str(kind), encoding,
                            *definitions.get(kind, ('', '')), self)._replace(
                                msgcount=counts.get(number, 0))
            for number, topic, kind, encoding in topics]

    def close(self) -> None:
        """Close the file."""
        self._opened.close()

    def messages(self, connections: Collection[Connection], start: int | None = None,
                 stop: int | None = None) -> Iterator[tuple[Connection, int, bytes]]:
        """Messages in the order of recording; of a file that was cut off, in that of writing."""
        wanted = {one.id: one for one in connections}
        limits = [('timestamp >= ?', start), ('timestamp < ?', stop), ('id <= ?', self._last_id)]
        words = ''.join(f' AND {word}' for word, value in limits if value is not None)
        # A timestamp's index may be what is missing.
        order = 'timestamp' if self._last_id is None else 'id'
        rows = self._execute(
            f'SELECT topic_id, timestamp, {_DATA} FROM messages WHERE topic_id IN '
            f'({",".join("?" * len(wanted))}){words} ORDER BY {order}',
            [allowed(MAX_MESSAGE_BYTES), *wanted,
             *(value for _, value in limits if value is not None)])
        while True:
            try:
                number, time_ns, data = next(rows)
            except StopIteration:
                return
            except sqlite3.DatabaseError:
                if self._last_id is not None:
                    return
                raise
            if isinstance(data, int):
                check_size('a message', data, MAX_MESSAGE_BYTES)
            if not isinstance(time_ns, int):
                raise StereoError(f'a message has the time {shown(time_ns)} ns')
            if not isinstance(data, bytes):
                raise StereoError(f'what was recorded at {time_ns} ns is no message')
            yield wanted[number], time_ns, data

    def _connected(self) -> sqlite3.Connection:
        """The file, which is not changed, with what SQLite has not taken into it yet."""
        journals = [path for path in (self.path.with_name(self.path.name + end)
                                      for end in _JOURNALS)
                    if path.is_file() and path.stat().st_size]
        if not journals:
            found = self._database(self.path, 'immutable=1')
            try:
                found.execute('SELECT count(*) FROM sqlite_master').fetchone()
            except sqlite3.DatabaseError:
                # Or SQLite reads nothing of a file that is shorter than it should be.
                found.execute('PRAGMA writable_schema=ON')
            return found
        with contextlib.suppress(sqlite3.Error):
            found = self._database(self.path, 'mode=ro')
            found.execute('SELECT count(*) FROM sqlite_master').fetchone()
            return found
        # Where nothing can be written beside it, or it has to be rolled back.
        check_size('the file', sum(path.stat().st_size for path in (self.path, *journals)),
                   MAX_UNPACKED_BYTES)
        folder = pathlib.Path(self._opened.enter_context(tempfile.TemporaryDirectory()))
        for path in (self.path, *journals):
            shutil.copy(path, folder / path.name)
        return self._database(folder / self.path.name, 'mode=rw')

    def _database(self, path: pathlib.Path, how: str) -> sqlite3.Connection:
        found = sqlite3.connect(f'{path.absolute().as_uri()}?{how}', uri=True,
                                check_same_thread=False)
        self._opened.callback(found.close)
        return found

    def _execute(self, words: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """A query that ends: damaged pages may lead to each other for ever."""
        count = itertools.count(0, _STEPS)
        limit = _MAX_STEPS + 10 * self.path.stat().st_size
        self._db.set_progress_handler(lambda: next(count) > limit, _STEPS)
        return self._db.execute(words, values)

    def _has(self, name: str, column: str) -> bool:
        """Whether there is such a table. A view is none: it need not end."""
        sql = self._db.execute(
            "SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [name]).fetchone()
        return bool(sql and str(sql[0]).upper().startswith('CREATE TABLE')
                    and any(row[1] == column
                            for row in self._db.execute(f'PRAGMA table_info({name})')))

    def _few(self, words: str) -> list[tuple[Any, ...]]:
        """The rows of a query about topics."""
        rows, size = [], 0
        for row in self._execute(words):
            size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
            check_size('the list of topics and their definitions', size, MAX_TOPICS_BYTES)
            rows.append(row)
        return rows

    def _counted(self) -> dict[int, int]:
        """Messages by topic; of a damaged file those that can still be read."""
        with contextlib.suppress(sqlite3.DatabaseError):
            return dict(self._execute(
                'SELECT topic_id, count(*) FROM messages GROUP BY topic_id').fetchall())
        counts: dict[int, int] = {}
        last_ns = 0
        with contextlib.suppress(sqlite3.DatabaseError):
            for number, topic, time_ns, data in self._execute(
                    f'SELECT id, topic_id, timestamp, {_DATA} FROM messages ORDER BY id',
                    [allowed(MAX_MESSAGE_BYTES)]):
                if not isinstance(time_ns, int) or not isinstance(data, bytes):
                    break
                counts[topic] = counts.get(topic, 0) + 1
                self._last_id, last_ns = number, time_ns
        if not counts:
            raise StereoError('it is damaged, and no message can be read: `sqlite3 FILE .recover` '
                              'and `ros2 bag reindex` may save what is left')
        self.note = (f'{self.path} is damaged or was cut off: its {sum(counts.values())} messages '
                     f'up to {last_ns / 1e9:.3f} s are read, and those behind them are not')
        return counts
