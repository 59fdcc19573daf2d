"""Compilers and how builds call them: compile commands, flags, headers, debug information."""
