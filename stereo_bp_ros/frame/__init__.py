"""What a matcher hands out."""
