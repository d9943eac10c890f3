"""``docs/reference/parameters.md``: every setting, those that users set first."""

from __future__ import annotations

from collections.abc import Mapping

from stereo_bp_ros.config.matcher import MatcherConfig
from stereo_bp_ros.config.node import NodeConfig
from stereo_bp_ros.config.settings import Setting

INTRODUCTION = """\
# Settings

Every setting is a ROS parameter of the node. Those marked *node* are fields of `NodeConfig`; all
others are also `--set KEY=VALUE` and fields of `MatcherConfig`. This page is printed by
`stereo_bp info --settings`.

When: **live** settings take effect on the next frame; **rebuild** ones build a new engine while
frames wait; **start** ones are read when the node starts.
"""

#: Settings by what they do, under the headings of the page and in their order.
GROUPS: Mapping[str, tuple[str, ...]] = {
    'The ten to know': (
        'preset', 'rectify', 'image_transport', 'approximate_sync', 'min_depth',
        'disparity_range', 'row_correction', 'filling', 'points_max_depth', 'backend'),
    'Images and calibration': (
        'side_by_side', 'calibration', 'rectified_width', 'rectified_height',
        'row_correction_limit', 'mono16_scale', 'max_image_width', 'max_image_height',
        'image_width', 'image_height', 'ignored_checks'),
    'Pairs and time': (
        'approximate_sync_tolerance_seconds', 'queue_size', 'use_system_default_qos',
        'max_input_age', 'max_latency', 'jump_threshold'),
    'Search': ('stereo_algorithm', 'min_disparity', 'downscale', 'reference_image'),
    'Rejected pixels': (
        'confidence_threshold', 'contrast_threshold', 'uniqueness_ratio', 'texture_threshold',
        'disp12_max_diff', 'speckle_size', 'speckle_range', 'border'),
    'Refinement': ('subpixel', 'median_window_size', 'bilateral_passes', 'bilateral_sigma'),
    'Results': (
        'pre_adjust_disparity', 'depth_encoding', 'color_map', 'points_min_depth',
        'points_decimation', 'points_organized'),
    'Warnings': (
        'input_timeout', 'latency_budget_ms', 'min_valid_fraction', 'max_vertical_offset'),
    'Machine': (
        'device_id', 'num_threads', 'memory_limit', 'partition_columns', 'partition_rows',
        'partition_padding', 'autostart', 'lock_memory', 'on_device_loss'),
    'Appendix: block matching': ('correlation_window_size',),
    'Appendix: preprocessing': (
        'smoothing_sigma', 'preprocessing', 'sobel_scale', 'prefilter_cap',
        'residual_window_size', 'residual_iterations'),
    'Appendix: multi-feature cost': (
        'census_weight', 'sparse_census_weight', 'census_window', 'sobel_weight', 'sobel_bound',
        'grey_weight', 'grey_bound', 'outside_cost', 'path_aggregation', 'path_step_penalty',
        'path_jump_penalty', 'discontinuity_edge_threshold', 'discontinuity_edge_truncation',
        'band_radius'),
    'Appendix: belief propagation': (
        'message_type', 'levels', 'iterations', 'data_weight', 'data_truncation',
        'discontinuity_slope', 'discontinuity_truncation', 'discontinuity_first_step',
        'tile_size', 'outer_iterations', 'inner_iterations'),
    'Appendix: papers': ('program', 'exact')}

NOTES = {
    'The ten to know': 'A preset provides the settings of matching, and these few are of your '
                       'cameras, robot\nand machine. The others seldom need a change.',
    'Appendix: block matching': 'The appendices are for experts: presets set them.',
    'Appendix: multi-feature cost': 'The data cost has several features where a weight of census, '
                                'sparse census, sobel or\ngrey is above 0.',
    'Appendix: papers': "The names of a program's settings begin with the program. They are "
                        'accepted, and declared by\nthe node, only where `program` names it at '
                        'the start.'}


def settings_reference() -> str:
    """All declared settings as the Markdown text of ``docs/reference/parameters.md``."""
    known = {**MatcherConfig.settings_of('default'), **NodeConfig.settings()}
    sections = [(title, NOTES.get(title, ''), [known[name] for name in names])
                for title, names in GROUPS.items()]
    for program, kind in MatcherConfig.nested().items():
        sections.append((f'Appendix: program `{program}`', (kind.__doc__ or '').partition('\n')[0],
                         [setting for name, setting in MatcherConfig.settings_of(program).items()
                          if name not in known]))
    lines = [INTRODUCTION]
    for title, text, settings in sections:
        lines += [f'## {title}', '', *([text, ''] if text else []),
                  '| name | default | accepted | when | meaning |',
                  '| --- | --- | --- | --- | --- |', *map(_row, settings), '']
    return '\n'.join(lines[:-1]) + '\n'


def _row(setting: Setting) -> str:
    when = 'start' if setting.read_only else 'live' if setting.live else 'rebuild'
    if setting.name in NodeConfig.settings():
        when += ', node'
    default = str(setting.default).lower() if setting.type is bool else str(setting.default)
    accepted = setting.limit().removeprefix('must be ')
    return (f'| `{setting.name}` | `{default or "(none)"}` | {accepted} | {when} | '
            f'{setting.described} |')
