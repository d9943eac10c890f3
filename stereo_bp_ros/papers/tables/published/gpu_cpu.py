"""Grauer-Gray, Optimizing Global Stereo Matching on NVIDIA GPUs and CPUs."""

from stereo_bp_ros.papers.tables.results import Published

TABLE_1 = Published.transcribe('gpu_cpu', 'table 1', 'section 2', """
The sets, the single-threaded CPU program (i7-7700K) and the initial CUDA one (V100), ms

Stereo Set | Dimensions | Disparities | CPU time | Init CUDA time
Tsukuba   | 388 X 284 | 16  | 107.0  | 5.9
Venus     | 434 X 383 | 21  | 305.1  | 9.4
Barn1     | 432 X 381 | 32  | 472.5  | 11.4
Cones (q) | 450 X 375 | 64  | 1008.1 | 27.7
Cones (h) | 900 X 750 | 128 | 8472.7 | 223.5
""")

TABLE_2 = Published.transcribe('gpu_cpu', 'table 2', 'section 4', """
Speedup by indexing [y][disparity][x] in place of [y][x][disparity]

GPU | Tsukuba | Venus | Barn1 | Cones (q) | Cones (h)
V100       | 1.5 | 1.8 | 2.2 | 2.1 | 2.5
K80        | 2.3 | 3.0 | 3.9 | 3.2 | 2.9
RTX 2060   | 2.3 | 2.6 | 3.2 | 2.6 | 2.1
Jetson TX1 | 2.1 | 3.2 | 2.7 | 2.0 | 1.8
""")

TABLE_3 = Published.transcribe('gpu_cpu', 'table 3', 'section 6.1', """
Speedup by one allocation in place of one per array and level

GPU | Tsukuba | Venus | Barn1 | Cones (q) | Cones (h)
V100       | 2.9 | 2.9  | 2.9  | 1.6  | 1.1
K80        | 1.9 | 1.9  | 1.9  | 1.5  | 1.2
RTX 2060   | 1.7 | 1.4  | 1.2  | 1.1  | 0.97
Jetson TX1 | 1.3 | 1.05 | 1.06 | 1.03 | 1.02
""")

TABLE_4 = Published.transcribe('gpu_cpu', 'table 4', 'section 6.2', """
Speedup by 16-bit half data in place of 32-bit float

GPU | Tsukuba | Venus | Barn1 | Cones (q) | Cones (h)
V100       | 1.1  | 1.3 | 1.3  | 1.9 | 1.4
RTX 2060   | 1.4  | 1.7 | 1.6  | 1.7 | 1.8
Jetson TX1 | 1.05 | 1.6 | 1.06 | 1.6 | 1.7
""")

TABLE_5 = Published.transcribe('gpu_cpu', 'table 5', 'section 6.3', """
Speedup by aligned rows, with float / half data

GPU | Tsukuba | Venus | Barn1 | Cones (q) | Cones (h)
V100 | 0.99 / 0.99 | 1.1 / 1.08  | 1.01 / 1.00 | 1.2 / 1.05  | 1.2 / 1.2
K80  | 1.1 / N/A   | 1.1 / N/A   | 1.07 / N/A  | 1.06 / N/A  | 1.1 / N/A
2060 | 0.99 / 1.0  | 1.03 / 1.01 | 1.0 / 1.01  | 1.06 / 0.93 | 1.05 / 1.04
TX1  | 1.02 / 0.82 | 1.2 / 0.92  | 1.03 / 1.07 | 1.03 / 1.01 | 1.09 / 1.03
""")

TABLE_6 = Published.transcribe('gpu_cpu', 'table 6', 'section 6.4', """
The CPU program (i7-7700K), the initial and the optimized CUDA program on a V100, ms

Stereo Set | CPU time | Init CUDA time | Opt. CUDA Time
Tsukuba   | 107.0  | 5.9   | 1.8
Venus     | 305.1  | 9.4   | 2.4
Barn1     | 472.5  | 11.4  | 3.3
Cones (q) | 1008.1 | 27.7  | 8.2
Cones (h) | 8472.7 | 223.5 | 131.1
""")

TABLE_7 = Published.transcribe('gpu_cpu', 'table 7', 'section 6.4', """
The CPU program, the initial and the optimized CUDA program on a Jetson TX1, ms

Stereo Set | Jetson CPU time | Init CUDA time | Opt. CUDA Time
Tsukuba   | 545.6   | 75.0   | 54.5
Venus     | 1696.4  | 107.8  | 74.6
Barn1     | 2724.3  | 203.5  | 191.2
Cones (q) | 4491.4  | 720.8  | 454.5
Cones (h) | 36153.3 | 8969.5 | 5635.0
""")

TABLE_8 = Published.transcribe('gpu_cpu', 'table 8', 'section 7.1', """
Mean speedup over the single-threaded CPU program, without and with SIMD instructions

CPU | OpenMP | OpenMP + SIMD | Speedup vs. i7
i7-7700K   | 3.2  | 5.0  | 1.0
Xeon 8175M | 11.0 | 20.9 | 3.1
EPYC 7571  | 12.3 | 18.9 | 2.4
Jetson TX1 | 2.4  | 3.8  | 0.15
""")

TABLE_9 = Published.transcribe('gpu_cpu', 'table 9', 'section 7.2', """
Speedup by one allocation, on CPUs

CPU | Tsukuba | Venus | Barn1 | Cones (q) | Cones (h)
i7-7700K   | 0.98 | 0.99 | 0.99 | 0.99 | 0.99
Xeon 8175M | 0.93 | 0.94 | 1.00 | 1.05 | 1.01
EPYC 7571  | 0.94 | 0.93 | 0.93 | 1.00 | 0.93
Jetson TX1 | 0.62 | 1.02 | 1.02 | 0.97 | 1.00
""")

TABLE_10 = Published.transcribe('gpu_cpu', 'table 10', 'section 7.2', """
Speedup by 16-bit half data, on CPUs

CPU | Tsukuba | Venus | Barn1 | Cones (q) | Cones (h)
i7-7700K   | 1.92 | 1.83 | 1.83 | 1.76 | 1.67
Xeon 8175M | 1.29 | 1.72 | 1.79 | 1.80 | 1.71
EPYC 7571  | 1.03 | 1.37 | 1.46 | 1.40 | 1.97
Jetson TX1 | 1.05 | 1.57 | 1.06 | 1.57 | 1.71
""")

TABLE_11 = Published.transcribe('gpu_cpu', 'table 11', 'section 7.2', """
Speedup by aligned rows, with float / half data, on CPUs

CPU | Tsukuba | Venus | Barn1 | Cones (q) | Cones (h)
7700K | 1.03 / 1.05 | 1.01 / 1.02 | 1.00 / 1.00 | 1.2 / 0.99  | 1.03 / 1.01
8175M | 1.25 / 1.28 | 1.13 / 1.09 | 1.20 / 1.07 | 1.21 / 1.11 | 1.07 / 1.02
7571  | 1.19 / 1.00 | 1.02 / 0.99 | 1.0 / 0.99  | 1.06 / 0.96 | 1.05 / 0.86
TX1   | 1.02 / 0.96 | 1.09 / 1.11 | 1.06 / 1.06 | 1.06 / 1.01 | 1.08 / 1.10
""")

TABLE_12 = Published.transcribe('gpu_cpu', 'table 12', 'section 7.3', """
The single-threaded, the parallel (with SIMD) and the optimized program on a Xeon 8175M, ms

Stereo Set | Init CPU | Parallel CPU (w/ SIMD) | Opt. CPU
Tsukuba   | 144.9   | 14.8 (7.1)     | 3.5
Venus     | 398.0   | 34.5 (17.3)    | 8.9
Barn1     | 637.5   | 52.3 (29.5)    | 13.8
Cones (q) | 1355.8  | 133.9 (73.4)   | 33.1
Cones (h) | 11512.5 | 1044.5 (598.2) | 312.5
""")

TABLE_13 = Published.transcribe('gpu_cpu', 'table 13', 'section 7.3', """
The single-threaded, the parallel (with SIMD) and the optimized program on a Jetson TX1, ms

Stereo Set | Init CPU | Parallel CPU (w/ SIMD) | Opt. CPU
Tsukuba   | 545.6   | 215.9 (134.2)     | 106.3
Venus     | 1696.4  | 610.4 (364.4)     | 275.7
Barn1     | 2724.3  | 916.2 (590.4)     | 464.5
Cones (q) | 4491.4  | 2373.4 (1439.3)   | 1160.7
Cones (h) | 36153.3 | 23288.1 (13748.6) | 10903.9
""")
