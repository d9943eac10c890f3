"""Pudpai, Kim & Liu, Data Stream Optimization of SAD on a Graphics Processing Unit.

The curves have no figures: these are what the text of section VII says of the GeForce 940M. It
gives 18.03 and 18.01 ms for "the two aforementioned approaches", read here as the global and the
centralized one.
"""

from stereo_bp_ros.papers.tables.results import Published

FIGURE_8 = Published.transcribe('sad', 'figure 8', 'section VII', """
Matching against the size of a workgroup, ms: Venus, 434x383, 64 disparities, 5x5

Streaming | 32 | 64 | 128 | 256 | 512
global            | the worst | the worst | the worst | | 18.03
centralized local | | | | | 18.01
distributed local | the best | the best | the best | the best | 4.88
""")

FIGURE_9 = Published.transcribe('sad', 'figure 9', 'section VII', """
Less time than with the workgroup size before, per cent: Venus, 434x383, 64 disparities, 5x5

Streaming | 64 | 128 | 256 | 512
global            | 40 to 50 | 40 to 50 | above 0 | above 0
centralized local | above 0  | above 0  | below 0 | below 0
distributed local | 40 to 50 | 40 to 50 | above 0 | above 0
""")
