"""Layouts of rendered sets: Virtual KITTI 2, SceneFlow, Sintel, TartanAir and Falling Things."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from stereo_bp_ros import calibration_files, files
from stereo_bp_ros.camera import Calibration, calibration_of_file
from stereo_bp_ros.evaluation.datasets.entries import (
    Entry,
    defer,
    find_folders,
    list_folders,
    list_images,
    pair_by_name,
    pair_by_side,
    pair_images,
    read_virtual_kitti,
    read_virtual_vehicles,
)

#: Grey level of a depth that 16 bits do not hold: the sky, in Virtual KITTI 2.
FARTHEST = 65535

#: Folders of images of SceneFlow: the whole set, its samples, and the subset of FlyingThings3D.
SCENE_FLOW_PASSES = ('frames_cleanpass', 'frames_finalpass', 'RGB_cleanpass', 'RGB_finalpass',
                     'image_clean', 'image_final')

#: Folders from one of these down to the images: FlyingThings3D has TRAIN/A/0000/left, Driving
#: 15mm_focallength/scene_forwards/fast/left.
SCENE_FLOW_LEVELS = 5

SINTEL_PASSES = ('clean', 'final')

#: Metres between the cameras of Falling Things, which no file of it says.
FALLING_THINGS_BASELINE = 0.06


def virtual_kitti(folder: Path) -> list[Entry] | None:
    """A variation of a scene (Scene01/clone) in Virtual KITTI 2's names, or None."""
    frames = folder / 'frames'
    if not (frames / 'rgb' / 'Camera_0').is_dir():
        return None
    numbers = defer(Calibration.from_file, folder / 'intrinsic.txt')
    entries = []
    for left, right in pair_by_name(frames / 'rgb' / 'Camera_0', frames / 'rgb' / 'Camera_1'):
        number = left.stem.rpartition('_')[2]
        depth = frames / 'depth' / 'Camera_0' / f'depth_{number}.png'
        seen = frames / 'classSegmentation' / 'Camera_0' / f'classgt_{number}.png'
        entries.append(Entry(
            left.stem, left, right,
            numbers and defer(_disparity_of_levels, depth, calibration=numbers, per_metre=100),
            calibration=numbers, vehicles=defer(read_virtual_vehicles, seen),
            sky=defer(_is_sky, depth), classes=defer(read_virtual_kitti, seen)))
    return entries


def _is_sky(depth: Path) -> np.ndarray:
    return np.asarray(files.read_grey(depth) >= FARTHEST)


def scene_flow(folder: Path) -> list[Entry] | None:
    """FlyingThings3D, Monkaa or Driving, or a folder inside one of their passes; or None.

    Both passes of the same pairs are told apart by their names where both are there.
    """
    inside = next((place for place in (folder, *folder.parents[:SCENE_FLOW_LEVELS])
                   if place.name in SCENE_FLOW_PASSES), None)
    tops = [inside] if inside else [folder / name for name in SCENE_FLOW_PASSES
                                    if (folder / name).is_dir()]
    entries = []
    for top in tops:
        for scene in _with_both_sides(folder if inside else top, SCENE_FLOW_LEVELS):
            truths = top.parent / 'disparity' / scene.relative_to(top)
            start = scene.relative_to(folder if inside or len(tops) > 1 else top)
            for left, right in pair_by_name(scene / 'left', scene / 'right'):
                name = f'{left.stem}.pfm'
                # Samples of the set have no folder for the left truths.
                entries.append(Entry(
                    (start / left.stem).as_posix(), left, right,
                    defer(_scene_flow_truth, truths / 'left' / name)
                    or defer(_scene_flow_truth, truths / name)))
    return entries or None


def _with_both_sides(folder: Path, levels: int) -> Iterator[Path]:
    """The folders, down to so many levels, that have left/ and right/."""
    if find_folders(folder, 'left', 'right'):
        yield folder
    elif levels:
        for child in list_folders(folder):
            yield from _with_both_sides(child, levels - 1)


def _scene_flow_truth(path: Path) -> np.ndarray:
    """The subset of FlyingThings3D has the other sign: positions right minus left."""
    disparity = files.read_pfm(path)
    known = disparity[np.isfinite(disparity)]
    return np.asarray(-disparity if known.size and known.max() <= 0 else disparity)


def sintel(folder: Path) -> list[Entry] | None:
    """Scenes below clean_left and final_left, also in training/; or None."""
    if any((folder / 'training' / f'{one}_left').is_dir() for one in SINTEL_PASSES):
        folder = folder / 'training'
    passes = {one: folders for one in SINTEL_PASSES
              if (folders := find_folders(folder, f'{one}_left', f'{one}_right'))}
    entries = []
    for one, (lefts, rights) in passes.items():
        for scene in list_folders(lefts):
            for left, right in pair_by_name(scene, rights / scene.name):
                name = f'{scene.name}/{left.stem}'
                truth, hidden, outside = (folder / kind / f'{name}.png' for kind in (
                    'disparities', 'occlusions', 'outofframe'))
                entries.append(Entry(
                    f'{one}/{name}' if len(passes) > 1 else name, left, right,
                    defer(_sintel_truth, truth),
                    occluded=defer(_either, hidden, outside) if truth.is_file() else None))
    return entries or None


def _sintel_truth(path: Path) -> np.ndarray:
    """4 pixels a level of red, 1/64 of green, 1/16384 of blue."""
    image = files.read_image(path)
    if image.ndim != 3:
        raise ValueError(f'disparity {path} is grey, but should have three colours')
    return np.asarray(image.astype(np.float32) @ np.array([4, 2**-6, 2**-14], np.float32))


def _either(*paths: Path) -> np.ndarray:
    first, second = (files.read_mask(path) for path in paths)
    if first.shape != second.shape:
        raise ValueError(f'{paths[0]} and {paths[1]} have different sizes')
    return np.asarray(first | second)


def tartan_air(folder: Path) -> list[Entry] | None:
    """A trajectory (P000) with image_left and image_right, or None."""
    folders = find_folders(folder, 'image_left', 'image_right')
    if folders is None or not any(
            name.rpartition('.')[0].endswith('_left') for name in list_images(folders[0])):
        return None
    return [Entry(name, left, right,
                  defer(_tartan_air_truth, folder / 'depth_left' / f'{name}_left_depth.npy'),
                  calibration=_tartan_air_calibration)
            for name, left, right in pair_by_side(*folders)]


def _tartan_air_calibration() -> Calibration:
    """Of all sets."""
    return Calibration.from_projections(
        *calibration_files.make_projections(320.0, 0.25, 320.0, 240.0), (640, 480))


def _tartan_air_truth(path: Path) -> np.ndarray:
    """From a depth in metres, as NumPy stores it."""
    content = files.read_bytes(path, 'depth')
    try:
        depth = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f'depth {path} is no array of NumPy: {error}') from error
    if depth.ndim != 2 or depth.dtype.kind != 'f':
        raise ValueError(f'depth {path} is {depth.dtype} {depth.shape}, but should be H x W of '
                         'floating-point numbers')
    return _disparity_of_depth(depth, _tartan_air_calibration())


def falling_things(folder: Path) -> list[Entry] | None:
    """Images NAME.left.jpg and NAME.right.jpg, or None."""
    lefts, rights = ({path.name.partition('.')[0]: path for name, path in
                      list_images(folder).items() if f'.{side}.' in name and '.depth.' not in name
                      and '.seg.' not in name} for side in ('left', 'right'))
    if not lefts.keys() & rights.keys():
        return None
    numbers = defer(_falling_things_calibration, folder / '_camera_settings.json')
    return [Entry(name, left, right,
                  numbers and defer(_disparity_of_levels, folder / f'{name}.left.depth.png',
                                    calibration=numbers, per_metre=10000),
                  calibration=numbers)
            for name, (left, right) in zip(lefts, pair_images(lefts, rights, folder, folder),
                                           strict=True)]


def _falling_things_calibration(path: Path) -> Calibration:
    try:
        settings = json.loads(files.read_text(path, 'calibration'))
        camera = settings['camera_settings'][0]
        fx, fy, cx, cy = (float(camera['intrinsic_settings'][name])
                          for name in ('fx', 'fy', 'cx', 'cy'))
        size = camera.get('captured_image_size', {})
        width, height = int(size.get('width', 0)), int(size.get('height', 0))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError,
            RecursionError) as error:
        raise ValueError(f'calibration {path} has no intrinsic_settings with fx, fy, cx and cy: '
                         f'{error}') from error
    p = calibration_files.make_projections(fx, FALLING_THINGS_BASELINE, cx, cy, fy)
    return calibration_of_file(path, *p, (width, height))


def _disparity_of_levels(path: Path, calibration: Callable[[], Calibration], per_metre: int
                         ) -> np.ndarray:
    """Of a depth in 16-bit levels, NaN where there is none (0) or it is too far (65535)."""
    levels = files.read_grey(path)
    if levels.dtype != np.uint16:
        raise ValueError(f'depth {path} has 8 bits: it should have 16, {per_metre} levels a metre')
    return _disparity_of_depth(np.where(levels < FARTHEST, levels, 0) / per_metre, calibration())


def _disparity_of_depth(depth: np.ndarray, calibration: Calibration) -> np.ndarray:
    """f B / Z, NaN where the depth is not finite or not above 0."""
    known = np.isfinite(depth) & (depth > 0)
    metres = np.where(known, depth, 1.0).astype(np.float64)
    disparity = calibration.focal_px * calibration.baseline_m / metres
    return np.asarray(np.where(known, disparity, np.nan), np.float32)
