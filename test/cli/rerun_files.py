"""Recordings of Rerun, read back."""

from __future__ import annotations

import collections
import pathlib
from typing import Any

import numpy as np


def rows(path: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """What a recording has of each entity: timelines and components of each row."""
    from rerun.chunk import RrdReader
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for chunk in RrdReader(path).stream():
        batch = chunk.to_record_batch()
        columns = {name: (column.cast('int64') if 'time' in str(column.type) else column
                          ).to_pylist()
                   for name, column in zip(batch.schema.names, batch.columns, strict=True)}
        found[chunk.entity_path.lstrip('/')] += [
            dict(zip(columns, cells, strict=True)) for cells in zip(
                *columns.values(), strict=True)]
    return found


def curve(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a curve, without its name and colour, which have no time."""
    return [row for row in found if any(key.endswith(':scalars') for key in row)]


def value(row: dict[str, Any], name: str) -> Any:
    """Of the component whose name ends so."""
    found, = (held for key, held in row.items() if key.endswith(f':{name}'))
    return found[0] if isinstance(found, list) and len(found) == 1 else found


def image(row: dict[str, Any]) -> np.ndarray:
    """The pixels of an image that is not compressed, or of a depth image."""
    kind, data = value(row, 'format'), np.asarray(value(row, 'buffer'), np.uint8)
    height, width = kind['height'], kind['width']
    if data.size == 2 * height * width:
        data = data.view(np.float16)
    return data.reshape(height, width, -1).squeeze()
