"""CUDA itself: device, compiler, memory; nothing of stereo."""
