"""The frame of every command: options, messages, exit codes, pipes, progress."""
