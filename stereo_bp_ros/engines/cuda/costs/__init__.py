"""Combined data costs and path sums on CUDA."""
