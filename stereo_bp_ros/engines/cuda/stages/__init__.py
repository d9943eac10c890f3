"""What every frame runs, whichever way matches."""
