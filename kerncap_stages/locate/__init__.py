"""Finds the source of a kernel, and describes it: definition, compile command, headers."""
