"""Search of a narrow band (``docs/explanation/algorithms.md``): each pixel has labels of its own.
"""
