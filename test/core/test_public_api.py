"""The public API is what is declared: nobody changes it unawares."""

from __future__ import annotations

import importlib.util
import pathlib

from stereo_bp_ros import MatcherConfig
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


def test_a_change_of_a_signature_a_setting_or_a_command_is_seen(monkeypatch):
    before = set(public_api.lines(topics=False))
    monkeypatch.setattr(MatcherConfig, 'replace', lambda self: self)
    monkeypatch.setattr('stereo_bp_ros.__all__', ['MatcherConfig', 'preset_names'])
    monkeypatch.setattr('stereo_bp_ros.cli.main.VERBS', ('match',))
    after = set(public_api.lines(topics=False))
    gone = before - after
    assert any(line.startswith('python MatcherConfig.replace(self: ') for line in gone)
    assert any(line.startswith('python class StereoMatcher') for line in gone)
    assert 'command stereo_bp evaluate --against' in gone
    assert 'python MatcherConfig.replace(self)' in after - before
