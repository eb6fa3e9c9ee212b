"""The tests mirror the packages; `integration/` runs the real stack, everything else runs without it."""
