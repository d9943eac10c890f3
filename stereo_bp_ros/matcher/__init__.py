"""Stereo matching of single pairs."""
