"""Print what lets a shell complete verbs, options, presets and settings at TAB.

  stereo_bp completion bash > ~/.local/share/bash-completion/completions/stereo_bp
  stereo_bp completion fish > ~/.config/fish/completions/stereo_bp.fish
  eval "$(stereo_bp completion zsh)"          (in ~/.zshrc, after compinit)
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from stereo_bp_ros.cli import options as shared
from stereo_bp_ros.config import all_settings
from stereo_bp_ros.config.files import AUTO, NONE, preset_names

HELP = 'print the completion for bash, zsh or fish'
NEEDS = ('argcomplete',)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('shell', choices=('bash', 'zsh', 'fish'), help='that reads it')


def run(options: argparse.Namespace) -> int:
    import argcomplete
    shared.say(*argcomplete.shellcode(['stereo_bp'], shell=options.shell).splitlines())
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell, which asks by variables of the environment, and end the process."""
    import argcomplete
    waiting = [parser]
    while waiting:
        for action in waiting.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()
            elif action.dest in COMPLETERS:
                action.completer = COMPLETERS[action.dest]      # type: ignore[attr-defined]
    argcomplete.autocomplete(parser, always_complete_options=False)


def _presets(**_: Any) -> list[str]:
    return [*preset_names(), AUTO, NONE]


def _settings(prefix: str, **_: Any) -> list[str]:
    """NAME=, and behind that the values that it has."""
    name, is_value, _rest = prefix.partition('=')
    return ([f'{name}={value}' for value in _values(name)] if is_value else
            [f'{name}=' for name in all_settings()])


def _words(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """A name, and behind a name the values that it has."""
    names = parsed_args.words or []
    return _values(names[0]) if names else list(all_settings())


def _values(name: str) -> list[str]:
    if name == 'preset':
        return _presets()
    setting = all_settings().get(name)
    return [] if setting is None else ['true', 'false'] if setting.type is bool else [
        *setting.choices]


#: By the name of an option's value.
COMPLETERS: Mapping[str, Callable[..., list[str]]] = {
    'preset': _presets, 'diff': _presets, 'warm_up': _presets, 'settings': _settings,
    'words': _words}
