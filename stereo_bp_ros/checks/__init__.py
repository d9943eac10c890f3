"""Validation of inputs and results."""
