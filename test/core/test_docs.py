"""The pages of the project: their links lead somewhere, and their tables are what is true."""

from __future__ import annotations

import argparse
import itertools
import pathlib
import re
import shlex

import pytest

from stereo_bp_ros import IssueCode, IssueLevel, MatcherConfig, preset_names
from stereo_bp_ros.cli.main import UsageError, build_parser
from stereo_bp_ros.config.stereo_image_proc import IGNORED
from stereo_bp_ros.images.raw_images import ENCODINGS
from stereo_bp_ros.node import main as node
from stereo_bp_ros.node.diagnostics.ledger import ImageDrop, PairDrop
from stereo_bp_ros.node.diagnostics.monitors import STAGES
from stereo_bp_ros.papers.programs import memory_bound
from test.cases import every
from test.core import class_table

LINK = re.compile(r'\]\(([^()\s]+)\)')
HEADING = re.compile(r'^#{1,6} +(.*?) *$', re.MULTILINE)
#: Where the words of the shell, or of ROS, begin in a command.
OF_OTHERS = ('>', '|', '&&', '--ros-args')
FENCED = re.compile(r'^ *(`{3,}).*?^ *\1 *$', re.MULTILINE | re.DOTALL)


def pages(repository: pathlib.Path) -> list[pathlib.Path]:
    return [repository / 'README.md', repository / 'CONTRIBUTING.md',
            *(page for folder in ('docs', 'kernels')
              for page in sorted((repository / folder).rglob('*.md')))]


def prose(page: pathlib.Path) -> str:
    """The text without its blocks of code."""
    return FENCED.sub('', page.read_text())


def anchors(page: pathlib.Path) -> set[str]:
    """The anchors that forges and MyST give to headings."""
    found: set[str] = set()
    for title in HEADING.findall(prose(page)):
        slug = re.sub(r'[^\w\- ]', '', LINK.sub(']', title).lower()).replace(' ', '-')
        number = 1
        anchor = slug
        while anchor in found:
            anchor = f'{slug}-{number}'
            number += 1
        found.add(anchor)
    return found


def broken_links(page: pathlib.Path) -> list[str]:
    broken = []
    for link in LINK.findall(re.sub(r'`[^`\n]+`', '', prose(page))):
        if re.match('[a-z]+:', link):
            continue
        path, _, anchor = link.partition('#')
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(f'{page.name}: {link}')
    return broken


def test_every_link_between_files_and_to_headings_leads_somewhere(repository):
    assert len(pages(repository)) > 10
    assert [link for page in pages(repository) for link in broken_links(page)] == []


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every verb that has options, with its parser; benchmark has verbs below it."""
    found = {}
    waiting = {'stereo_bp': build_parser()}
    while waiting:
        name, parser = waiting.popitem()
        below = [action for action in parser._actions
                 if isinstance(action, argparse._SubParsersAction)]
        for action in below:
            waiting.update({f'{name} {verb}': child for verb, child in action.choices.items()})
        if not below:
            found[name] = parser
    return found


def rows(parser: argparse.ArgumentParser) -> list[str]:
    """The options of a verb as its table in the page has them."""
    found = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = action.metavar or ('{' + ','.join(map(str, action.choices)) + '}'
                                   if action.choices else action.dest.upper())
        value = '' if action.nargs == 0 else f' {value}'
        names = ', '.join(f'`{name}{value}`' for name in action.option_strings)
        meaning = ' '.join((action.help or '').split()).replace('|', r'\|')
        found.append(f'| {names or f"`{action.metavar or action.dest}`"} | {meaning} |')
    return found


def commands(page: pathlib.Path) -> list[list[str]]:
    """The words behind ``stereo_bp`` of each command in blocks of code, up to what the shell has.
    """
    blocks = re.findall(r'^```bash\n(.*?)^```', page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [shlex.split(line, comments=True) for block in blocks
             for line in block.replace('\\\n', ' ').splitlines()]
    return [list(itertools.takewhile(lambda word: word not in OF_OTHERS, words[1:]))
            for words in lines if words[:1] == ['stereo_bp']]


def test_every_command_of_the_pages_is_understood(repository):
    found = [(page.name, words) for page in pages(repository) for words in commands(page)]
    assert len(found) > 50
    assert {'README.md', 'cli.md', 'evaluate_many.md'} <= {name for name, _ in found}
    refused = []
    for name, words in found:
        try:
            build_parser().parse_args(words)
        except UsageError as error:
            refused.append(f'{name}: stereo_bp {shlex.join(words)}: {error}')
    assert not refused


def test_the_page_of_commands_has_every_verb_and_the_options_that_help_prints(repository):
    page = (repository / 'docs/reference/cli.md').read_text()
    sections = {title: (re.findall(r'^\| .*', text, re.MULTILINE)[2:], text)
                for title, text in re.findall(r'^##+ (.*?)\n(.*?)(?=^##|\Z)', page,
                                              re.MULTILINE | re.DOTALL)}
    shared = {'(#settings-and-output)': sections['Settings and output'][0],
              '(#where-pairs-are)': sections['Where pairs are'][0],
              '(#where-truths-are)': sections['Where truths are'][0]}
    assert every(shared.values())
    tables = {}
    for title, (table, text) in sections.items():
        # Verbs with the same options share a section; one over others has no table.
        if title.startswith('stereo_bp') and table:
            linked = [row for link, options in shared.items() if link in text
                      for row in options]
            tables.update(dict.fromkeys(title.split(', '), sorted(table + linked)))
    wanted = {name: sorted(rows(parser)) for name, parser in parsers().items()}
    assert tables == wanted, '\n\n'.join(
        f'{name} is to have the table\n' + '\n'.join(table)
        for name, table in wanted.items() if tables.get(name) != table)


def test_every_option_with_a_default_says_it_in_its_help():
    said = 0
    for verb, parser in parsers().items():
        for action in parser._actions:
            # No default, or what a flag or a list begins with.
            if action.dest in ('help', 'version') or action.default in (None, False, '', [], ()):
                continue
            assert re.search(r'\bdefault\b', action.help or ''), (verb, action.option_strings)
            said += 1
    assert said > 30


def test_the_default_preset_and_back_end_are_in_the_help_of_each_verb_that_matches():
    matching = [parser for parser in parsers().values()
                if any('--preset' in action.option_strings for action in parser._actions)]
    assert len(matching) > 5
    for parser in matching:
        text = ' '.join(parser.format_help().split())
        assert re.search(r'--preset NAME .*?\(default: [^)]+\)', text)
        assert 'what computes (default: auto)' in text


def test_the_page_of_the_node_has_every_reason_stage_encoding_and_exit_status(repository):
    page = ' '.join((repository / 'docs/reference/node.md').read_text().split())
    known = [f'`{name}`' for name in (*ImageDrop, *PairDrop, *STAGES)]
    known += [code.value for code in IssueCode
              if code.scope == 'pair' and code.level is IssueLevel.ERROR] + list(ENCODINGS)
    known += [f'| {status} | ' for status in (0, node.EXIT_REFUSED, node.EXIT_DEVICE_LOST)]
    assert [text for text in known if text not in page] == []


SETS = {'tsukuba': (384, 288, 16), 'venus': (434, 383, 21), 'barn1': (432, 381, 32),
        'cones_quarter': (450, 375, 64), 'cones_half': (900, 750, 128),
        '640x480x64': (640, 480, 64)}


def table(text: str) -> dict[str, list[str]]:
    """The cells of the first table behind a heading, by the first cell of each row."""
    lines = itertools.dropwhile(lambda line: not line.startswith('|'), text.splitlines())
    cells = [[cell.strip() for cell in line.strip('|').split('|')]
             for line in itertools.takewhile(lambda line: line.startswith('|'), lines)]
    return {first: others for first, *others in cells[2:]}


def test_the_pages_have_the_memory_that_engines_plan(repository, monkeypatch):
    from stereo_bp_ros.engines.cpu.plan import plan_of as cpu
    from stereo_bp_ros.engines.cuda.plan import plan_of as cuda

    monkeypatch.setattr('stereo_bp_ros.engines.cpu.memory.available_threads', lambda: 2)

    def mib(plan_of, name: str, **changes) -> str:
        width, height, disparities = SETS[name]
        config = MatcherConfig.preset('five_sets', disparity_range=disparities, num_threads=2,
                                      **changes)
        return f'{plan_of(config, width, height).memory.total / 2**20:.1f}'

    def bound(name: str, size: int) -> str:
        return f'{size * memory_bound(*SETS[name]) / 2**20:.1f}'

    memory = (repository / 'docs/performance.md').read_text().split('\n## Memory\n')[1]
    assert table(memory.split('\n### CPU\n')[1]) == {
        name: [mib(cpu, name, message_type='int16'), mib(cpu, name, message_type='float16'),
               bound(name, 2), mib(cpu, name, message_type='float32'), bound(name, 4)]
        for name in SETS}
    planned = table(memory.split('\n### CUDA\n')[1])
    assert planned == {
        name: [mib(cuda, name, message_type='int16', stereo_algorithm=algorithm)
               for algorithm in ('bp', 'tiled_bp')] for name in SETS if name in planned}
    assert len(planned) == 5
    # Pages that repeat figures of these tables.
    repeated = (repository / 'docs/explanation/tiled_bp.md').read_text().split('## Beside `bp`')[1]
    assert {name: [row[0].split(', ')[-1], row[-1]] for name, row in table(repeated).items()
            } == planned
    repeated = (repository / 'docs/explanation/global_matching.md').read_text().split(
        '## The cost of a larger range')[1]
    assert {name.split()[0]: row[-1] for name, row in table(repeated).items()} == {
        name: mib(cpu, name, message_type='int16')
        for name in ('tsukuba', 'cones_quarter', 'cones_half')}


def test_the_page_of_python_has_every_class_and_function_as_they_describe_themselves(repository):
    page = (repository / 'docs/reference/python.md').read_text()
    assert '\n'.join(class_table.table()) in page, 'python -m test.core.class_table prints it'


@pytest.mark.parametrize('page', ['README.md', 'docs/howto/choose_settings.md'])
def test_every_preset_is_offered(repository, page):
    table = re.findall(r'^\| `.*', (repository / page).read_text(), re.MULTILINE)
    named = {name for row in table for name in re.findall(r'`(\w+)`', row.split('|')[1])}
    assert set(preset_names()) <= named


def test_settings_that_are_ignored_are_named_for_those_who_migrate(repository):
    page = (repository / 'docs/howto/migrate_from_stereo_image_proc.md').read_text()
    row, = [line for line in page.splitlines() if 'accepted and ignored' in line]
    assert set(re.findall(r'`(\w+)`', row.split('|')[1])) == set(IGNORED)


def test_every_promise_of_security_names_the_tests_that_hold_it(repository):
    text = (repository / 'SECURITY.md').read_text(encoding='utf-8')
    defended = text.partition('## What is defended')[2].partition('\n## ')[0]
    promises = [row for row in defended.splitlines() if row.startswith('| ')][2:]
    assert len(promises) > 5
    for row in promises:
        tests = re.findall(r'`(test/[\w/.]+)`', row.split('|')[-2])
        assert every((repository / path).exists() for path in tests), row
