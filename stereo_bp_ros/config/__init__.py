"""Every setting, declared once: type, default, range, unit, meaning.

ROS parameters, ``--set`` on the command line, the YAML presets and the reference table in the
docs all come from, or are checked against, ``MatcherConfig`` and ``NodeConfig``.
"""
