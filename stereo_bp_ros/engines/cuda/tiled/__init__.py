"""Tiled belief propagation."""
