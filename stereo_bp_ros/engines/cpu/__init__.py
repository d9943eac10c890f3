"""The CPU engine: one module per stage, compiled by Numba."""
