"""Settings that have moved to a program: rejected with their new name, for one release."""

from __future__ import annotations

#: Old name to new name; the new one begins with the program that has it.
RENAMED = {
    'message_storage': 'plain_steps.storage',
    'storage_registers': 'plain_steps.registers',
    'storage_shared': 'plain_steps.shared',
    'storage_block_width': 'plain_steps.block_width',
    'storage_block_height': 'plain_steps.block_height',
    'storage_blocks': 'plain_steps.blocks',
    'message_layout': 'plain_steps.layout',
    'aligned_rows': 'plain_steps.aligned_rows',
    'allocation': 'plain_steps.allocation',
    'packed_halves': 'plain_steps.packed_halves',
    'vectorised': 'plain_steps.vectorised',
    'sad_variant': 'streamed_sad.variant',
    'tile_schedule': 'tiled_barriers.schedule',
    'tile_synchronisation': 'tiled_barriers.synchronisation',
    'message_computation': 'tiled_barriers.computation',
}


def new_name(name: str) -> str:
    """A sentence about a setting that has moved; '' = it has not."""
    if name not in RENAMED:
        return ''
    program = RENAMED[name].partition('.')[0]
    return f'{name} is now {RENAMED[name]}, with program: {program}'
