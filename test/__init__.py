"""The tests; a package, so that they import what they share by name."""
