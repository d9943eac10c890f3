"""What is made of a finished disparity: a kernel for each output. ``stage.py`` lists them."""
