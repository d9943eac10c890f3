"""The CUDA engine: the stages of a frame as kernels in one CUDA graph, through CuPy."""
