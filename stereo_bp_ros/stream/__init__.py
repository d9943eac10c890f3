"""Stereo matching of the pairs of one camera, one after another."""
