"""A soak of the node process over DDS: faults at random, each with its expected outcome.

``python -m test.soak --minutes 60 --seed 1 --output build/soak``; docs/howto/soak.md explains it.
"""
