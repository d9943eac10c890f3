"""The public API is what is declared: nobody changes it unawares."""

from __future__ import annotations

import importlib.util
import pathlib

from test.core import public_api

DECLARED = pathlib.Path(__file__).with_name('public_api.txt')


def test_the_public_api_is_the_declared_one():
    has_ros = importlib.util.find_spec('rclpy') is not None
    found = set(public_api.lines(topics=has_ros))
    declared = {line for line in DECLARED.read_text(encoding='utf-8').splitlines()
                if has_ros or not line.startswith(('topic ', 'dropped '))}
    assert found == declared, (
        f'new: {sorted(found - declared)}; gone: {sorted(declared - found)}; if that is meant: '
        'python -m test.core.public_api > test/core/public_api.txt, and a line in CHANGELOG.rst')
