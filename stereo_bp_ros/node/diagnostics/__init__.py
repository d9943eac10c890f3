"""What the node says of itself: counters, latencies, conditions, and the report of all."""
