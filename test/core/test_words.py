"""Pages, messages and public names have the field's terms."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

#: What must not be there, and the term that stands for it.
TERMS = {
    r'\bbeliev(?:e|es|ed)\b|\bdoubt': 'validate, issue, unreliable',
    r'\btold\b|\btells?\b': 'is notified of, reports, shows',
    r'\bundo(?:es|ne)?\b': 'corrects, corrected',
    r'\bmiss(?:es)? each other': 'vertical disparity',
    r'(?:pixels?|images?|disparit\w+)[^.]{0,20} as they are\b': 'unshifted',
    r'(?<!\bat )\bleast\b(?![ -]squares)': 'minimum',
    r'\blargest (?:disparity|label|cost|message|value|number|error|difference)': 'maximum',
    r'\bbehind infinity': 'has negative disparity',
    r'\bthe last label\b': 'maximum disparity',
    r'\bcombined costs?\b': 'multi-feature cost',
    r'\bpath sums?\b': 'SGM path aggregation',
    r'\brims?\b': 'border',
    r'\bharmless\b': 'reference',
    r'\bstood still\b': 'paused',
    r'\b(?:has|have) got\b|\bgets? a disparity': 'is filled from',
    r'\bor hole\b': 'all pixels',
}

#: Parts of public names.
NAMES = ('least', 'most', 'largest', 'told', 'tell', 'believe', 'doubt', 'undo', 'undone', 'rim',
         'why_not', 'why_apart', 'is_sure', 'so_far', 'path_sums')

#: Keys of /diagnostics and codes of issues, which their readers know.
KEYS = ('behind infinity', 'at the last label %', 'largest disparity')


def wrong(text: str) -> list[str]:
    """What a text has of ``TERMS``, with the term to write."""
    one_line = ' '.join(text.split())
    return [f'{match[0]!r}: {term}' for pattern, term in TERMS.items()
            for match in re.finditer(pattern, one_line, re.IGNORECASE)]


def messages(tree: ast.Module) -> Iterator[str]:
    """The strings of a module that are no docstrings, and the docstrings of what is public."""
    private = {first.value for node in ast.walk(tree)
               if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
               and node.name.startswith('_') and isinstance(first := node.body[0], ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in private:
            yield node.value


def pages(repository: pathlib.Path) -> list[pathlib.Path]:
    return [repository / 'README.md', repository / 'CHANGELOG.rst',
            *sorted((repository / 'docs').rglob('*.md'))]


def test_pages_have_the_terms_of_the_field(repository: pathlib.Path) -> None:
    assert [f'{path.relative_to(repository)}: {one}' for path in pages(repository)
            for one in wrong(re.sub(r'`+[^`]*`+', '', path.read_text(encoding='utf-8')))] == []


def test_messages_and_docstrings_have_the_terms_of_the_field(repository: pathlib.Path) -> None:
    found = []
    for path in sorted((repository / 'stereo_bp_ros').rglob('*.py')):
        for text in messages(ast.parse(path.read_text(encoding='utf-8'))):
            if text not in KEYS:
                found += [f'{path.relative_to(repository)}: {one}' for one in wrong(text)]
    assert found == []


def test_public_names_have_the_terms_of_the_field(repository: pathlib.Path) -> None:
    api = (repository / 'test/core/public_api.txt').read_text(encoding='utf-8')
    for key in KEYS:
        api = api.replace(key, '')
    assert [name for name in NAMES if re.search(rf'(?<![a-z]){name}(?![a-z])', api)] == []
