"""Measure the tables and figures of the five papers on the devices of this machine.

  python -m benchmarks.papers middlebury/ --output papers/
  python -m benchmarks.papers middlebury/ --paper gpu_cpu --table 1 --table 6
  python -m benchmarks.papers --paper ai_2009 --backend cpu
  python -m benchmarks.papers --read gpu/papers.json --read cpu/papers.json --output both/
  python -m benchmarks.papers --walk 450x375x65

Every table is printed as the paper has it, with rows of this machine under the paper's. DATA is a
folder with the papers' images (tsukuba, venus, barn1, cones_quarter, cones_half, cones_full,
red_barrel), each a folder with left.png and right.png, or a folder whose subfolder middlebury has
them. What is missing, an image or a setting or a device, is named under its table and never
replaced; only the road of the AI 2009 paper is drawn. Times are those of whole frames, medians
of frames of all variants in turn, images in memory before and disparity in memory after.
"""
