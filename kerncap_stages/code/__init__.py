"""Formats of code: code objects, fat binaries, PTX; how kernels and their types are named."""
