"""Calibrations, rectification, and how the cameras of a pair are turned."""
