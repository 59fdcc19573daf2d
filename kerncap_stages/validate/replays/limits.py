"""The limit on replays at the same time, in a module that imports nothing."""

# Replays at the same time each need memory for the capture. Larger captures are replayed one at a time.
MAX_BYTES_AT_ONCE = 2 << 30
