"""Where stereo pairs come from: folders, bags, and a street that is drawn."""
