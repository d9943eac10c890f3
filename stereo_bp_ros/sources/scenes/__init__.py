"""Rendered streets with exact ground truth; ``sequence`` is what others use."""
