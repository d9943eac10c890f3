"""What is made of a finished disparity: one function for each output. ``fill.py`` lists them."""
