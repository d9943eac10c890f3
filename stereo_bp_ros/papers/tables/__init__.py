"""The tables and figures of the five papers, measured again on the device that is there."""
