"""Belief propagation in the plain steps of LCPC 2010 and of the GPU + CPU paper."""
