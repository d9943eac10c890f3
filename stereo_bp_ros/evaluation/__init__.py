"""Datasets, metrics, bags, synthetic scenes and reports."""
