"""Limits on the processes of replays, in a module that imports nothing."""

# Replays at the same time each need memory for the capture. Larger captures are replayed one at a time.
MAX_BYTES_AT_ONCE = 2 << 30
# One process serves several replays of a capture up to this size. Between them it gives all memory back,
# while another process would be ready; and it ends if the driver keeps much of it.
MAX_BYTES_KEPT = 64 << 20
