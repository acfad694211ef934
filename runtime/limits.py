"""Limits of the calls."""

# The most splits that a call may ask for: the merge holds all LSEs of a row at once.
MOST_SPLITS = 128
LARGEST_F32 = 3.4028234663852886e38
# The most that a call is credited with, in bytes: a row that asks for more is never taken.  Prepared calls are told
# apart by their addresses modulo this.
LARGEST_ALIGNMENT = 16
