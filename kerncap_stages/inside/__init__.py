"""Modules that run in the user's program, in any Python: they use the standard library only."""
