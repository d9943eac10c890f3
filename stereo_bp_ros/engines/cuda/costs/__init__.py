"""Multi-feature data costs and path aggregation on CUDA."""
