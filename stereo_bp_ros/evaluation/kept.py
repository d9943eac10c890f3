"""Results of a long evaluation: on the disk, and read again one after another.

A result with truth takes tens of kilobytes in memory. Here it takes eight bytes there, and about
two kilobytes of a file without a name in the folder for temporary files.
"""

from __future__ import annotations

import array
import os
import pickle
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

from stereo_bp_ros.evaluation.results import Result

LEVEL = 1
"""Of compression: the quickest."""


class Results(Sequence[Result]):
    """Grows by ``append``; every item is read anew.

    :raises OSError: there is no room for them.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix='stereo_bp_', buffering=0)  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._ends = array.array('Q', [0])

    def append(self, result: Result) -> None:
        """Keep one more."""
        data = memoryview(zlib.compress(pickle.dumps(result), LEVEL))
        end = self._ends[-1] + len(data)
        while data:
            data = data[os.pwrite(self._file.fileno(), data, end - len(data)):]
        self._ends.append(end)

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> Result: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Result]: ...

    def __getitem__(self, index: int | slice) -> Result | Sequence[Result]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        start, end = self._ends[places], self._ends[places + 1]
        found: Result = pickle.loads(zlib.decompress(
            os.pread(self._file.fileno(), end - start, start)))
        return found


class Rows(list[Any]):
    """A list for ``json.dump`` whose items are made when it writes them.

    :param make: begins anew.
    """

    def __init__(self, make: Callable[[], Iterator[Any]], count: int) -> None:
        super().__init__()
        self._make, self._count = make, count

    def __iter__(self) -> Iterator[Any]:
        return self._make()

    def __len__(self) -> int:
        return self._count
