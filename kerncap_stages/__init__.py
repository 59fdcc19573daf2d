"""Take one GPU kernel out of a running program: profile, capture, locate, generate, replay, validate."""

__version__ = "0.1.0"
