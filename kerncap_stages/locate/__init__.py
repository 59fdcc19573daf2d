"""Finding and describing the source of a kernel: names, definitions, compile commands, headers."""
