"""Limits of the public calls."""

# The most splits that a call may ask for: the merge holds all LSEs of a row at once.
MOST_SPLITS = 128
