"""The command line: stereo_bp <verb>, one file per verb."""
