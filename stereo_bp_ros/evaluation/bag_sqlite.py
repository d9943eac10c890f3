"""Files of rosbag2 in SQLite for the reader of bags, also where a recording was cut off."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sqlite3
import tempfile
from collections.abc import Collection, Iterator

from rosbags.interfaces import (
    Connection,
    ConnectionExtRosbag2,
    MessageDefinition,
    MessageDefinitionFormat,
)

from stereo_bp_ros.errors import StereoError, printable, shown

#: Suffix of the files.
SUFFIX = '.db3'

#: What SQLite has beside a file whose last changes are not in it yet.
_JOURNALS = ('-wal', '-journal')

_FORMATS = {'ros2msg': MessageDefinitionFormat.MSG, 'ros2idl': MessageDefinitionFormat.IDL}


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
        columns = {row[1] for row in self._db.execute('PRAGMA table_info(topics)')}
        if not columns or not self._db.execute('PRAGMA table_info(messages)').fetchall():
            raise StereoError('it has no tables of topics and messages')
        definitions = {}
        if self._db.execute('PRAGMA table_info(message_definitions)').fetchall():
            definitions = {kind: (form, text) for kind, form, text in self._db.execute(
                'SELECT topic_type, encoding, encoded_message_definition '
                'FROM message_definitions')}
        topics = self._db.execute(
            'SELECT id, name, type, serialization_format FROM topics ORDER BY id').fetchall()
        counts = self._counted()
        for number, topic, kind, encoding in topics:
            kind = str(kind)
            form, text = definitions.get(kind, ('', ''))
            if encoding != 'cdr':
                kind, form = f'{printable(kind)} ({printable(encoding)})', ''
            known = _FORMATS.get(form)
            definition = MessageDefinition(known or MessageDefinitionFormat.NONE,
                                           text if known else '')
            self.connections.append(Connection(
                number, str(topic), kind, definition, '', counts.get(number, 0),
                ConnectionExtRosbag2(encoding, []), self))

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
        rows = self._db.execute(
            f'SELECT topic_id, timestamp, data FROM messages WHERE topic_id IN '
            f'({",".join("?" * len(wanted))}){words} ORDER BY {order}',
            [*wanted, *(value for _, value in limits if value is not None)])
        while True:
            try:
                number, time_ns, data = next(rows)
            except StopIteration:
                return
            except sqlite3.DatabaseError:
                if self._last_id is not None:
                    return
                raise
            if not isinstance(data, bytes) or not isinstance(time_ns, int):
                raise StereoError(f'{shown(data)} at {shown(time_ns)} ns is no message')
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
        folder = pathlib.Path(self._opened.enter_context(tempfile.TemporaryDirectory()))
        for path in (self.path, *journals):
            shutil.copy(path, folder / path.name)
        return self._database(folder / self.path.name, 'mode=rw')

    def _database(self, path: pathlib.Path, how: str) -> sqlite3.Connection:
        found = sqlite3.connect(f'{path.absolute().as_uri()}?{how}', uri=True,
                                check_same_thread=False)
        self._opened.callback(found.close)
        return found

    def _counted(self) -> dict[int, int]:
        """Messages by topic; of a damaged file those that can still be read."""
        with contextlib.suppress(sqlite3.DatabaseError):
            return dict(self._db.execute(
                'SELECT topic_id, count(*) FROM messages GROUP BY topic_id').fetchall())
        counts: dict[int, int] = {}
        last_ns = 0
        with contextlib.suppress(sqlite3.DatabaseError):
            for number, topic, time_ns, data in self._db.execute(
                    'SELECT id, topic_id, timestamp, data FROM messages ORDER BY id'):
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
