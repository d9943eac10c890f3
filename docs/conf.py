"""How Sphinx builds these pages: ``make docs``."""

from __future__ import annotations

import re
from typing import Any

import stereo_bp_ros

project = 'stereo_bp_ros'
copyright = 'the stereo_bp_ros developers'
version = release = stereo_bp_ros.__version__

extensions = ['myst_parser', 'sphinx.ext.autodoc']
myst_heading_anchors = 4
autodoc_member_order = 'bysource'
autodoc_typehints = 'description'
autodoc_typehints_description_target = 'documented'
html_theme = 'furo'
html_copy_source = False

# Pages of Python, NumPy and the package's inner modules are not among these.
nitpick_ignore_regex = [('py:.*', r'(np|numpy|collections|concurrent|enum|os|threading)\..*'),
                        ('py:.*', r'stereo_bp_ros\.(?!(Matcher|Stereo|RawI|Calib|Disp)).*'),
                        ('py:.*', r'[A-Za-z_]+')]

#: Lines of a docstring that describe fields, 'focal_px:   focal length, pixels.', and several
#: parameters at once, ':param left, right: images.'
FIELDS = re.compile(r'^(\w+(?:, \w+)*): +(?=\S)')
SEVERAL = re.compile(r'^:param (\w+(?:, \w+)+):')


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect('autodoc-process-docstring', show_fields)


def show_fields(app: Any, what: str, name: str, of: object, options: object,
                lines: list[str]) -> None:
    """Let Sphinx show fields and parameters that a docstring describes as a list of them."""
    if what == 'class':
        lines[:] = [FIELDS.sub(r':param \1: ', line) for line in lines]
    # Of two words Sphinx takes the first for a type.
    lines[:] = [SEVERAL.sub(lambda found: found[0].replace(', ', ','), line) for line in lines]
