"""Programs that measure: each runs as ``python -m benchmarks.<name>``."""
