"""Storages, layouts and number types of the papers' plain steps."""

from __future__ import annotations

from typing import Any

from test.settings import plain

STORAGES: dict[str, dict[str, Any]] = {
    'register': plain(storage='register'),
    'shared': plain(storage='shared'),
    'local': plain(storage='local'),
    'hybrid': plain(storage='hybrid', registers=3, shared=4),
    'high blocks': plain(storage='shared', block_width=16, block_height=16),
    'odd blocks': plain(storage='register', block_width=5, block_height=7, blocks=3),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    'disparity major': plain(layout='disparity_major'),
    'pixel major': plain(layout='pixel_major'),
    'unaligned': plain(layout='disparity_major', aligned_rows=False),
    'pixel major, unaligned': plain(layout='pixel_major', aligned_rows=False),
    'one block a frame': plain(layout='disparity_major', allocation='single'),
    'arrays for each level': plain(layout='disparity_major', allocation='separate',
                                   aligned_rows=False),
}
TYPES: dict[str, dict[str, Any]] = {
    'float32': {'message_type': 'float32'}, 'float16': {'message_type': 'float16'},
    'half2': {'message_type': 'float16', **plain(packed_halves=True)},
    'int16': {'message_type': 'int16'}}
