"""Kotsifakou, A GPU Implementation of Tiled Belief Propagation on Markov Random Fields (2019)."""

from stereo_bp_ros.papers.tables.results import Published

# The text prints CTX 680. The reference code's mismatches stand in section 5.1; its time nowhere.
TABLE_5_2 = Published.transcribe('thesis_2019', 'table 5.2', 'section 5.1', """
Tiled BP, 16 labels, tile 13, one outer and one inner iteration: Tsukuba

Device | Execution Time (ms) | Number of Mismatches
Tesla C2050           | 7.96 | 15716
GTX 680               | 9.26 | 15716
reference code of BP  |      | 17743
""")

TABLE_5_3 = Published.transcribe('thesis_2019', 'table 5.3', 'section 5.1', """
Tiled BP, 16 labels, tile 13, one outer and one inner iteration: Red Barrel

Device | Execution Time (ms) | Number of Mismatches
Tesla C2050 | 7.95 | 16713
GTX 680     | 9.24 | 16736
""")
