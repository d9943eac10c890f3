"""What becomes of frames when a GPU fails, fills up or is shared."""
