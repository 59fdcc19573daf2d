"""Limits of replays, for those who need no more of them."""

# Replays at the same time each need memory for the capture. Larger captures are replayed one at a time.
MAX_BYTES_AT_ONCE = 2 << 30
