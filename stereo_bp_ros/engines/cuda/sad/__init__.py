"""SAD block matching."""
