"""One face for the layouts in which stereo pairs are stored."""
