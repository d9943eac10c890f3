"""The five papers' experiments: what repeats them, and their tables beside what they print."""
