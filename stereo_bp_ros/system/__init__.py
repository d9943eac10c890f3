"""What the package needs of the machine and of Python, nothing of stereo."""
