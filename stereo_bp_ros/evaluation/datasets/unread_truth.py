"""What looks like a ground truth and is none of the layout in which pairs were found."""

from __future__ import annotations

import re
from pathlib import Path

from stereo_bp_ros.evaluation.datasets.entries import listed

TRUTH_NAME = re.compile(r'disp(?!lay)|depth|truth|(?<![a-z])gt\d*(?![a-z])', re.IGNORECASE)
"""What people name a truth beside images."""

GROUND_TRUTH = re.compile(r'(?<![a-z])gt\d*(?![a-z])|ground_?truth', re.IGNORECASE)
"""What they name a tree of truths."""

OUTSIDE_NAME = re.compile(rf'{GROUND_TRUTH.pattern}|^disp(?!lay)|^depths?$', re.IGNORECASE)
"""What they name a folder of truths beside a folder of images."""

NO_TRUTH = re.compile(r'_picture\.png$|\.(txt|ya?ml|json|md|html)$')
"""Names that are none for all that: pictures of ``match``, and text."""


def find_unread_truth(folder: Path, layout: str, expected: str) -> str:
    """A sentence about a truth that may be meant, where a folder of pairs has none; or ''.

    Looked at are the folder, the folders beside it, and those beside the two above it.

    :param layout:   its name.
    :param expected: what the layout has as its truth, in words; '' = nothing.
    """
    found = [path for path in listed(folder)
             if TRUTH_NAME.search(path.name) and not NO_TRUTH.search(path.name)]
    for own in (folder, *folder.parents[:2]):
        beside = [path for path in listed(own.parent) if path != own]
        found += [path for path in beside if OUTSIDE_NAME.search(path.name) and path.is_dir()
                  and not any(path.name.startswith(other.name) for other in beside
                              if other != path)]
    if not found:
        return ''
    needed = f'needs {expected}' if expected else \
        'has none: write left.png, right.png and disparity.pfm of each pair to a folder'
    return (f'{found[0]} looks like a ground truth and was not read: the layout of {folder} '
            f'({layout}) {needed}')
