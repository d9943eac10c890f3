"""Combined data costs (``docs/explanation/algorithms.md``): features and path aggregation."""
