"""Grauer-Gray & Cavazos, Optimizing and Auto-tuning Belief Propagation on the GPU (LCPC 2010)."""

from stereo_bp_ros.papers.tables.results import Published

# The head of the first column is printed over two: 'Storage/Loop Unroll Setting'.
TABLE_1 = Published.transcribe('lcpc_2010', 'table 1', 'section 5', """
Storage of the message under computation: Tsukuba, 15 disparities

Storage/Loop Unroll Setting | Num local loads | Num local stores | Num regs | Occup. | Total running time | Speedup from init. CUDA imp.
Initial CUDA imp. on GTX 285    | 1307529 | 7360296 | 37  | 0.375 | 47.0 ms | —
Register memory imp. on GTX 285 | 0       | 0       | 110 | 0.125 | 24.3 ms | 1.93
Shared memory imp. on GTX 285   | 0       | 0       | 53  | 0.25  | 25.4 ms | 1.85
""")  # noqa: E501

TABLE_2 = Published.transcribe('lcpc_2010', 'table 2', 'sections 6 and 8', """
The best split of the message between registers, shared and local memory: Cones, 450x375, 65
disparities

GPU (config.) | Thread Block Dims | Num vals in reg.-shared-loc. mem. in mess. array | Num local loads | Num local stores | Num regs used | Occup. | Total run-time | Speedup over Init. CUDA imp.
GTX 285                  | 32 X 2 | 34-31-0 | 2209184 | 4418368 | 124 | 0.125 | 238.0 ms | 1.76
Tesla C870               | 32 X 2 | 14-51-0 | 0       | 0       | 120 | 0.083 | 840.2 ms | 1.43
GTX 470 (fav L1 cache)   | 32 X 2 | 0-7-58  | 4523184 | 4339010 | 61  | 0.333 | 231.2 ms | 0.94
GTX 470 (fav shared mem) | 32 X 2 | 0-63-2  | 87327   | 133654  | 59  | 0.125 | 189.6 ms | 1.19
""")  # noqa: E501

TABLE_3 = Published.transcribe('lcpc_2010', 'table 3', 'sections 7 and 8', """
The occupancy that the walk over occupancies ends with: Cones, 450x375, 65 disparities

GPU (config.) | Max occupancy | Running Time (ms) | Speed-up over Init. CUDA imp. | % Difference in speedup from opt. imp. from Section 6
GTX 285                    | 0.14 | 238.3 ms | 1.76 | 0.0%
Tesla C870                 | 0.10 | 797.7 ms | 1.51 | +5.06%
GTX 470 (favor L1 cache)   | 0.58 | 227.6 ms | 0.95 | +1.56%
GTX 470 (favor shared mem) | 0.16 | 188.0 ms | 1.20 | +1.01%
""")  # noqa: E501

TABLE_4 = Published.transcribe('lcpc_2010', 'table 4', 'section 9', """
Split images with the tuned storage: Cones, 900x750 with 129 disparities in 3 rows (in brackets
1800x1500 with 256 in 5 x 5 parts), padding 20

GPU (config.) | Max occupancy | Running Time | Speed-up over initial CUDA imp.
GTX 285                    | 0.14 (0.14) | 3120 ms (31500 ms) | 1.18 (0.97)
Tesla C870                 | 0.36 (0.36) | 8260 ms (74900 ms) | 1.01 (0.94)
GTX 470 (favor L1 cache)   | 0.54 (0.64) | 1980 ms (18600 ms) | 0.98 (0.98)
GTX 470 (favor shared mem) | 0.58 (0.54) | 1940 ms (18500 ms) | 1.02 (0.99)
""")

# The curves have no figures; these are what the text of section 6 says of the GTX 285.
FIGURE_3 = Published.transcribe('lcpc_2010', 'figure 3', 'section 6', """
Splits of the message between two kinds of memory: Cones, 450x375, 65 disparities

Values in registers-shared-local memory | Thread Block Dims | Total running time | Speedup over Init. CUDA imp.
0-0-65, initial CUDA imp.  | 32 X 4 | 420 ms | —
65-0-0, register memory    | 32 X 4 | 300 ms |
0-65-0, shared memory      | 32 X 4 | does not fit 16 KB |
34-31-0, the best          | 32 X 2 | 238.0 ms | 1.76
""")  # noqa: E501

# The curves have no figures; these are their maxima, from table 3.
FIGURE_4 = Published.transcribe('lcpc_2010', 'figure 4', 'sections 7 and 8', """
Storage by the walk over maximum occupancies from 0.04 to 1.00: Cones, 450x375, 65 disparities

Max occupancy | Running Time | Speed-up over Init. CUDA imp.
0.14, best on GTX 285                    | 238.3 ms | 1.76
0.10, best on Tesla C870                 | 797.7 ms | 1.51
0.58, best on GTX 470 (favor L1 cache)   | 227.6 ms | 0.95
0.16, best on GTX 470 (favor shared mem) | 188.0 ms | 1.20
""")
