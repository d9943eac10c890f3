"""Xu, Chen, Klette, Liu & Vaudrey, Belief Propagation Implementation Using CUDA (AI 2009).

The paper has no tables: these are the figures in its text.
"""

from stereo_bp_ros.papers.tables.results import Published

TIMES = Published.transcribe('ai_2009', 'times', 'section 4', """
One frame on a CPU and on a GPU: Tsukuba, 384x288, 16 labels; road, 640x480, 33 labels

Images | CPU | CUDA | CPU / CUDA
Tsukuba, Core 2 Duo 2.13 GHz and GTX 280 | 32.42 s | 0.127 s | over 250
road, Core 2 Duo 2.13 GHz and GTX 280    | 93.98 s | 2.75 s  | 34
""")

PREPROCESSING = Published.transcribe('ai_2009', 'preprocessing', 'section 4, figures 3, 5 and 6', """
Original, Sobel and residual images: bad pixels in per cent, road, 640x480, 33 labels

Images | bad 1 px, same exposure | bad 3 px, same exposure | bad 1 px, other exposure | bad 3 px, other exposure
original | not satisfying | | not satisfying |
Sobel    | improves       | | improves       |
residual | improves       | | improves       |
""")  # noqa: E501

MEMORY = Published.transcribe('ai_2009', 'memory', 'section 3.2', """
What the engines allocate, and the paper's bound, (5 + 10 n) M N values of 4 bytes, MB

Images | bound
Tsukuba, 384x288, n = 16 | 73.0
road, 640x480, n = 33    | 411.6
800x600, n = 50: the most for 1 GB | 969.6
""")
