"""Hierarchical belief propagation."""
