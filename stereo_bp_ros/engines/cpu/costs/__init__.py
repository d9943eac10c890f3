"""Combined data costs: one file a cost, with its feature and its distance, and path sums.

``docs/explanation/algorithms.md`` defines them.
"""
