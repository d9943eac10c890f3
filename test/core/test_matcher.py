"""StereoMatcher: the public API."""

from __future__ import annotations

import contextlib
import importlib.metadata
import weakref

import numpy as np
import pytest

from stereo_bp_ros import (
    BackendUnavailable,
    Calibration,
    ConfigError,
    InputError,
    IssueCode,
    MatcherConfig,
    MemoryLimitError,
    RawImage,
    StereoError,
    StereoMatcher,
)
from stereo_bp_ros.engines import choice, host_memory, partitions
from stereo_bp_ros.engines.backend import SHARE, Backend
from stereo_bp_ros.engines.cpu.backend import CpuBackend
from stereo_bp_ros.engines.cuda.runtime import device

SMALL = MatcherConfig(disparity_range=16, levels=3, iterations=4, backend='cpu')


@pytest.fixture
def matcher():
    with StereoMatcher(SMALL) as made:
        yield made


def test_a_shifted_texture_gets_its_shift(matcher, textured_pair):
    frame = matcher.compute(*textured_pair(80, 40, 7))
    inside = frame.disparity[frame.valid_window.slices]
    assert (np.abs(inside - 7) <= 0.5).mean() > 0.98
    assert frame.backend == 'cpu'
    assert (frame.min_disparity, frame.max_disparity) == (0, 15)
    outside = np.ones_like(frame.valid)
    outside[frame.valid_window.slices] = False
    assert np.all(frame.disparity[outside] == frame.min_disparity - 1)
    assert not frame.valid[outside].any()


def test_results_are_written_into_the_callers_array_and_nothing_else_is_kept(matcher,
                                                                            textured_pair):
    pair = textured_pair(64, 32, 5)
    out = np.empty((32, 64), np.float32)
    frame = matcher.compute(*pair, out={'disparity': out})
    assert frame.disparity is out
    raw = (RawImage.from_array(image) for image in pair)
    assert np.array_equal(matcher.compute(*raw).disparity, out)
    first = out.copy()
    fresh = matcher.compute(*textured_pair(64, 32, 9, seed=4)).disparity
    assert np.array_equal(out, first)
    assert not np.shares_memory(fresh, out)


def test_an_unknown_output_and_depth_without_calibration_are_refused(matcher, textured_pair):
    with pytest.raises(StereoError, match="outputs is 'colour', but must be one of"):
        matcher.compute(*textured_pair(64, 32, 5), outputs=('colour',))
    with pytest.raises(InputError, match='depth needs a calibration') as error:
        matcher.compute(*textured_pair(64, 32, 5), outputs=('depth',))
    assert error.value.code is IssueCode.BAD_CALIBRATION


@pytest.mark.parametrize('out', [
    np.empty((32, 63), np.float32), np.empty((32, 64), np.float64),
    np.empty((64, 32), np.float32).T])
def test_an_unfit_output_array_is_refused(matcher, textured_pair, out):
    with pytest.raises(InputError) as error:
        matcher.compute(*textured_pair(64, 32, 5), out={'disparity': out})
    assert error.value.code is IssueCode.BAD_ARRAY


def test_fixed_point_disparity_is_what_opencvs_filters_take(matcher, textured_pair):
    import cv2
    calibration = Calibration(100.0, 0.5, 32.0, 30.0, 16.0)
    out = np.empty((32, 64), np.int16)
    frame = matcher.compute(*textured_pair(64, 32, 5), calibration=calibration,
                            outputs=('disparity',), out={'fixed_disparity': out})
    assert frame.fixed_disparity is out
    assert np.array_equal(out[frame.valid], 16 * (frame.disparity[frame.valid] + 2))
    invalid = 16 * (matcher.config.min_disparity - 1)
    assert (out[~frame.valid] == invalid).all()
    cv2.filterSpeckles(out, invalid, 4000, 16)
    assert (out == invalid).all()


def test_fixed_point_disparity_is_refused_where_sixteen_bits_do_not_hold_the_range(
        matcher, textured_pair):
    pair = textured_pair(64, 32, 5)
    for least, disparities, fits in ((-2047, 16, True), (-2048, 16, False), (2032, 16, True),
                                     (2033, 16, False)):
        matcher.reconfigure(matcher.config.replace(
            min_disparity=least, disparity_range=disparities))
        if fits:
            frame = matcher.compute(*pair, outputs=('fixed_disparity',))
            assert frame.disparity is None
            assert (frame.fixed_disparity == 16 * (least - 1)).all()
        else:
            with pytest.raises(ConfigError, match='16 bits'):
                matcher.compute(*pair, outputs=('fixed_disparity',))


def test_depth_is_focal_length_times_baseline_over_disparity(matcher, textured_pair):
    calibration = Calibration(100.0, 0.5, 32.0, 30.0, 16.0)
    frame = matcher.compute(*textured_pair(64, 32, 5), calibration=calibration,
                            outputs=('disparity', 'depth'))
    assert frame.min_disparity == -2.0
    valid = frame.valid & (frame.disparity > 0)
    assert np.allclose(frame.depth[valid], 50.0 / frame.disparity[valid], rtol=1e-6)
    assert np.isnan(frame.depth[~valid]).all()


def test_another_size_gets_another_engine_but_not_a_pair_of_two(matcher, textured_pair):
    left, right = textured_pair(64, 32, 5)
    matcher.compute(left, right)
    with pytest.raises(InputError):
        matcher.compute(left[:-1], right)
    assert matcher.size == (64, 32)
    matcher.compute(*textured_pair(50, 41, 5))
    assert matcher.size == (50, 41)


@pytest.mark.parametrize(('size', 'text'), [
    ((64.0, 32), r'width is 64\.0; it must be a whole number'), ((64, True), 'height is True'),
    ((np.float32(64), 32), r'width is 64\.0'), ((-64, 32), 'width is -64; .* at least 0'),
    (('64', 32), "width is '64'"), ((64, 0), '64 x 0; give width and height'),
    ((0, 32), '0 x 32; give')])
def test_a_size_that_is_no_whole_numbers_is_refused_and_spoils_nothing(size, text, textured_pair):
    # No other test has this configuration, whose plans are cached.
    config = SMALL.replace(disparity_range=18)
    with StereoMatcher(config) as matcher, pytest.raises(InputError, match=text) as error:
        matcher.prepare(*size)
    assert error.value.code is IssueCode.BAD_SIZE
    with StereoMatcher(config) as matcher:
        assert matcher.compute(*textured_pair(64, 32, 7)).disparity.shape == (32, 64)


def test_a_size_of_numpys_small_numbers_is_planned_without_an_overflow():
    with StereoMatcher(SMALL) as matcher, StereoMatcher(SMALL) as other:
        matcher.prepare(np.uint8(200), np.uint8(100))
        planned = matcher.memory_plan
        other.prepare(200, 100)
        assert planned == other.memory_plan
        assert set(map(type, matcher.size)) == {int}


def test_a_live_change_keeps_the_engine_and_a_rebuild_replaces_it(matcher, textured_pair):
    pair = textured_pair(64, 32, 5)
    matcher.compute(*pair)
    assert matcher.reconfigure(SMALL.replace(subpixel=False)) is False
    assert matcher.compute(*pair).delta_d == 1.0
    assert matcher.reconfigure(SMALL.replace(disparity_range=8)) is True
    assert matcher.compute(*pair).max_disparity == 7


def test_a_failed_change_leaves_the_old_configuration(matcher, textured_pair):
    pair = textured_pair(64, 32, 5)
    before = matcher.compute(*pair).disparity
    with pytest.raises(MemoryLimitError) as error:
        matcher.reconfigure(SMALL.replace(disparity_range=32, memory_limit=1000))
    assert error.value.needed > error.value.allowed == 1000
    assert matcher.config == SMALL
    assert np.array_equal(matcher.compute(*pair).disparity, before)


def test_submitted_frames_come_back_in_order_and_equal_or_with_their_error(matcher, textured_pair):
    pairs = [textured_pair(64, 32, d, seed=d) for d in (3, 5, 7)]
    expected = [matcher.compute(*pair).disparity for pair in pairs]
    pending = [matcher.submit(*pair) for pair in pairs]
    for one, disparity in zip(pending, expected, strict=True):
        assert np.array_equal(one.result(timeout=10).disparity, disparity)
    left, right = pairs[0]
    wrong = matcher.submit(left, right[:-1])
    with pytest.raises(InputError):
        wrong.result(timeout=10)


def test_without_a_gpu_auto_says_why_it_took_the_cpu_and_cuda_what_would_help(monkeypatch):
    monkeypatch.setattr(device, 'unavailable',
                        lambda index: BackendUnavailable('no device', 'buy one'))
    with StereoMatcher(SMALL, backend='auto') as matcher:
        assert matcher.backend == 'cpu'
        assert matcher.backend_reason == 'no device; buy one'
    with pytest.raises(BackendUnavailable) as error:
        StereoMatcher(SMALL, backend='cuda')
    assert error.value.remedy == 'buy one'


@pytest.mark.parametrize(('setting', 'others'), [
    ({'plain_steps.vectorised': False}, {'message_type': 'float32', 'program': 'plain_steps'}),
    ({'message_type': 'float16'}, {})])
def test_what_only_the_cpu_engine_has_goes_to_the_cpu_and_is_refused_on_cuda(monkeypatch, setting,
                                                                             others):
    monkeypatch.setattr(device, 'unavailable', lambda index: None)
    monkeypatch.setattr(device, 'properties', lambda _: device.TYPICAL)
    config = SMALL.replace(**others, **setting)
    (field,) = setting
    with StereoMatcher(config, backend='auto') as matcher:
        assert matcher.backend == 'cpu'
        assert field in matcher.backend_reason
    with pytest.raises(ConfigError) as refused:
        StereoMatcher(config, backend='cuda')
    assert refused.value.field == field
    exact = SMALL.replace(message_type='float32', exact=True, backend='auto')
    assert choice.choose(exact).name == 'cuda'


@pytest.mark.parametrize(('version', 'text'), [
    (None, 'which is not installed'), ('0.55.2', r'0\.57 or later, not 0\.55\.2')])
def test_without_a_fit_numba_the_matcher_says_what_to_install(monkeypatch, version, text):
    def installed(name):
        if version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, 'version', installed)
    with pytest.raises(BackendUnavailable, match=text) as error:
        StereoMatcher(SMALL)
    assert 'pip install' in error.value.remedy


TINY = MatcherConfig(disparity_range=8, levels=2, backend='cpu')


@contextlib.contextmanager
def without_compiler():
    """No CPU engine can be warmed up."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr('stereo_bp_ros.engines.cpu.engine.warm_up', lambda *_: 1 / 0)
        yield


def test_an_engine_that_cannot_be_warmed_up_changes_nothing(textured_pair):
    pair = textured_pair(64, 48, 3)
    with StereoMatcher(TINY) as matcher:
        assert matcher.compile_time == 0
        seconds = matcher.prepare(64, 48)
        assert 0 < matcher.compile_time <= seconds
        with without_compiler(), pytest.raises(ZeroDivisionError):
            matcher.reconfigure(TINY.replace(disparity_range=16))
        assert matcher.config == TINY
        assert matcher.compute(*pair).disparity is not None


def test_neither_a_warm_engine_nor_a_live_change_compiles(textured_pair):
    with StereoMatcher(TINY) as matcher:
        matcher.prepare()
        with without_compiler():
            matcher.prepare(64, 48)
            assert not matcher.reconfigure(TINY.replace(subpixel=False))
        assert matcher.size == (64, 48)
        assert matcher.compute(*textured_pair(64, 48, 3)).delta_d == 1.0


@pytest.fixture
def scarce(monkeypatch):
    """Sets how many bytes a matcher's host has: what its engine does not hold is free."""
    choice.warm_up(SMALL)          # or room is left for the compiler

    def install(matcher, total):
        def free(**_):
            plan = matcher.memory_plan
            return total - (plan.total if plan else 0)
        monkeypatch.setattr(host_memory, 'available', free)
    return install


def test_a_configuration_is_resolved_once_for_an_engine_and_its_frames(textured_pair, monkeypatch):
    resolve, asked = CpuBackend.resolve, []
    monkeypatch.setattr(CpuBackend, 'resolve', lambda backend, config: (
        asked.append(config), resolve(backend, config))[1])
    near, nearer = (Calibration(100.0, baseline, 40.0, 40.0, 20.0) for baseline in (0.2, 0.5))
    given = MatcherConfig.preset('road', backend='cpu', min_depth=1.0, downscale=2)
    with StereoMatcher(given) as matcher:
        for calibration in (near, near, nearer, None):
            matcher.compute(*textured_pair(80, 40, 7), calibration=calibration)
        assert [config.disparity_range for config in asked] == [32, 64]
        assert (matcher.config, matcher.effective_config) == (given, asked[-1])
        assert not matcher.reconfigure(given.replace(speckle_size=5))
        assert len(asked) == 3


def fitting_total(config, width, height):
    """Bytes free at which an engine just fits as a whole."""
    plan = choice.resolve(config).lay_out(width, height, partitions.whole(width, height))
    return int(plan.memory.total / SHARE) + 1


LARGER = SMALL.replace(disparity_range=32)


def test_a_reconfiguration_near_the_limit_gives_what_a_fresh_start_gives(textured_pair, scarce):
    pair = textured_pair(400, 300, 7)
    with StereoMatcher(LARGER) as fresh, StereoMatcher(SMALL) as changed:
        scarce(fresh, fitting_total(LARGER, 400, 300))
        expected = fresh.compute(*pair).disparity
        scarce(changed, fitting_total(LARGER, 400, 300))
        changed.compute(*pair)
        assert changed.reconfigure(LARGER) is True
        assert fresh.partitions.count == changed.partitions.count == 1
        assert np.array_equal(changed.compute(*pair).disparity, expected)


def test_with_room_for_both_the_old_engine_stays_until_the_new_one_is_built(textured_pair,
                                                                           scarce, monkeypatch):
    with StereoMatcher(SMALL) as matcher:
        scarce(matcher, 2 * fitting_total(LARGER, 400, 300))
        matcher.compute(*textured_pair(400, 300, 7))
        monkeypatch.setattr(Backend, 'create', lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            matcher.reconfigure(LARGER)
        assert matcher.size == (400, 300)


def test_where_the_new_engine_does_not_fit_at_all_the_old_one_stays(textured_pair, scarce):
    with StereoMatcher(SMALL) as matcher:
        scarce(matcher, fitting_total(SMALL, 64, 48))
        matcher.compute(*textured_pair(64, 48, 7))
        with pytest.raises(MemoryLimitError):
            matcher.reconfigure(SMALL.replace(disparity_range=512))
        assert (matcher.config, matcher.size) == (SMALL, (64, 48))


def test_where_building_fails_after_the_old_engine_was_closed_the_old_configuration_stays(
        textured_pair, scarce, monkeypatch):
    pair = textured_pair(400, 300, 7)
    with StereoMatcher(SMALL) as matcher:
        scarce(matcher, fitting_total(LARGER, 400, 300))
        expected = matcher.compute(*pair).disparity
        with monkeypatch.context() as patched:
            patched.setattr(Backend, 'create', lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                matcher.reconfigure(LARGER)
        assert matcher.config == SMALL
        assert np.array_equal(matcher.compute(*pair).disparity, expected)


def test_a_closed_engine_holds_no_memory():
    engine = choice.create_engine(SMALL, 64, 48)
    arena = next(iter(engine._arrays.values()))
    while isinstance(arena.base, np.ndarray):
        arena = arena.base
    alive = weakref.ref(arena)
    del arena
    engine.close()
    assert alive() is None


def test_whether_a_configuration_fits_is_told_without_asking_a_device_what_is_free(monkeypatch):
    def refuse(_):
        raise AssertionError('asked the device')
    monkeypatch.setattr(device, 'unavailable', lambda _: None)
    monkeypatch.setattr(device, 'properties', lambda _: device.TYPICAL)
    monkeypatch.setattr(device, 'available_memory', refuse)
    on_device = SMALL.replace(backend='cuda')
    for config, refusal in ((on_device, contextlib.nullcontext()), (
            on_device.replace(memory_limit=1000), pytest.raises(MemoryLimitError))):
        resolved = choice.resolve(config)
        with refusal:
            resolved.plan(640, 480, resolved.backend.allowed_at_best(config))
