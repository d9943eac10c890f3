"""The gates of a refactoring tell equal machine code and plans from changed ones."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

pytest.importorskip('cupy')
from benchmarks.gates import __main__ as command_line
from benchmarks.gates import cases, comparison, kernels, plans
from stereo_bp_ros.engines.cuda.runtime import compiler

DOUBLE = 'template <int N> __global__ void scale(float* x) { x[threadIdx.x] *= N; }\n'


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> pathlib.Path:
    """A file of kernels in place of the package's."""
    monkeypatch.setattr(compiler, 'KERNELS', tmp_path)
    (tmp_path / 'small.cu').write_text(DOUBLE)
    return tmp_path / 'small.cu'


def small(name: str) -> str:
    return kernels.code_hash(('sm_90', 'small.cu', name))


def test_there_are_kernels_of_every_folder() -> None:
    found = kernels.names('sm_75', (64,))
    assert {file.partition('/')[0] for file, _ in found} >= {
        'frame', 'hierarchical', 'costs', 'sad', 'tiled', 'papers'}
    assert found < kernels.names('sm_75', (64, 128))


def test_names_and_neighbours_do_not_change_a_hash_and_code_does(source: pathlib.Path) -> None:
    before = small('scale<2>')
    assert small('scale<2>') == before
    source.write_text(DOUBLE.replace('scale', 'multiply_in_place') + '\n'
                      '__global__ void other(float* x) { x[threadIdx.x] = 1.0f; }\n')
    assert small('multiply_in_place<2>') == before
    assert small('multiply_in_place<3>') != before
    assert small('other') != before


def test_a_file_without_the_kernel_is_refused(source: pathlib.Path) -> None:
    binary, symbol = compiler.compile_kernel('small.cu', 'scale<2>', 'sm_90')
    assert kernels.code_of(binary, symbol)
    with pytest.raises(ValueError, match='no section'):
        kernels.code_of(binary, symbol + 'x')
    with pytest.raises(ValueError, match='no little-endian ELF'):
        kernels.code_of(binary[1:], symbol)


def hashes(**codes: str) -> dict[str, Any]:
    return {'kind': 'kernels', 'selection': [['sm_90'], []],
            'entries': {f'sm_90 | a.cu | {name}<1>': code for name, code in codes.items()}}


@pytest.mark.parametrize(('new', 'names', 'is_equal', 'text'), [
    (hashes(uno='1', two='2'), {'one': 'uno'}, True, '2 kernels are equal'),
    (hashes(uno='1', two='2'), {}, True, 'all 2 hashes are equal, 2 keys differ'),
    (hashes(one='2', two='1'), {}, False, 'kernels differ in 2 places'),
    (hashes(uno='1', two='3'), {'one': 'uno'}, False, 'sm_90 | a.cu | two<1>: 2 became 3'),
    (hashes(one='1'), {}, False, 'sm_90 | a.cu | two<1>: only old'),
    # Two become one only if their code was the same.
    (hashes(one='1'), {'two': 'one'}, False, 'sm_90 | a.cu | one<1>: 1 and 2 became 1'),
    ({**hashes(one='1', two='2'), 'selection': [['sm_75'], []]}, {}, False,
     'different selection')])
def test_compared_kernels_are_equal_whatever_they_are_called(
        capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path, new: dict[str, Any],
        names: dict[str, str], is_equal: bool, text: str) -> None:
    for name, content in (('old', hashes(one='1', two='2')), ('new', new), ('names', names)):
        (tmp_path / name).write_text(json.dumps(content))
    status = command_line.main(['compare', str(tmp_path / 'old'), str(tmp_path / 'new'),
                         '--names', str(tmp_path / 'names')])
    printed = capsys.readouterr().out
    assert status == (0 if is_equal else 1)
    assert text in printed
    assert not is_equal or printed.count('\n') == 1


def test_whole_tokens_are_renamed_the_longest_first_and_equal_code_may_become_one() -> None:
    assert comparison.compare(hashes(one='1', two='1'), hashes(one='1'), {'two': 'one'})[0]
    names = {'Int16': 'Whole', 'messages.cu': 'hierarchical/messages.cu', 'messages': 'sent'}
    assert comparison.renamed(['Int16 Int16Deltas messages.cu messages messages_0'], names) == [
        'Whole Int16Deltas hierarchical/messages.cu sent messages_0']


@pytest.fixture(scope='module')
def planned() -> dict[str, Any]:
    """Of three small cases: one that iterates, one of the papers, one that is refused."""
    made = [cases.Case({'levels': 2, 'disparity_range': 8}, 64, 48),
             cases.Case(cases.of('plain_steps', {'layout': 'pixel_major',
                                                 'allocation': 'separate'}), 64, 48),
             cases.Case({'stereo_algorithm': 'sad', 'border': 'keep'}, 64, 48)]
    return plans.record({case.label: case for case in made})


def test_plans_say_what_an_engine_plans_and_launches(planned: dict[str, Any]) -> None:
    fast, papers, refused = planned['entries'].values()
    assert [step['level'] for step in fast['cuda']['passes']][-1] == 0
    names = [array['name'] for array in fast['cuda']['arrays']]
    assert {'cost_0', 'cost_1', 'label'} <= set(names)
    assert {'cost_0', 'messages_1'} <= {array['name'] for array in fast['cpu']['arrays']}
    # All that is launched was loaded before.
    for record in (fast['cuda'], papers['cuda']):
        frames = [call for calls in record['frames'].values() for call in calls]
        launched = {f'{call["file"]}: {call["kernel"]}' for call in frames if 'kernel' in call}
        assert launched
        assert launched <= set(record['loaded'])
    frame = papers['cuda']['frames']['mono8: disparity']
    assert sum('malloc' in call for call in frame) == sum('free' in call for call in frame) > 0
    assert 'SAD has no result outside the valid window' in refused['cuda']['refused']


def test_plans_differ_where_a_launch_does(planned: dict[str, Any]) -> None:
    assert comparison.compare(planned, planned, {}) == (True, ['3 plans are equal'])
    changed = json.loads(json.dumps(planned))
    label = next(iter(changed['entries']))
    last = changed['entries'][label]['cuda']['frames']['mono8: disparity'][-1]
    last['grid'][0] += 1
    is_equal, lines = comparison.compare(planned, changed, {})
    assert not is_equal
    assert len(lines) == 2
    assert '/grid/0: ' in lines[1]
    last['grid'][0] -= 1
    last['arguments'] = 'others'
    assert not comparison.compare(planned, changed, {})[0]
    assert comparison.compare(planned, changed, {}, frozenset({'arguments'}))[0]


def test_arguments_of_launches_count() -> None:
    seen = plans.Recorder()
    kernel = seen.kernel(None, 'a.cu', 'one')
    for value in (b'1', b'2'):
        kernel.launch(0, (1, 1, 1), (32, 1, 1), 0, value)
    first, second = seen.take()
    assert first.pop('arguments') != second.pop('arguments')
    assert first == second
    assert seen.take() == []
