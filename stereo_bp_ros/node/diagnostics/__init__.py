"""What the node says of itself: counters, latencies, issues, and the report of all."""
