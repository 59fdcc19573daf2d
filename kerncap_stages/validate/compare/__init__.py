"""Compares memory: elements by their type and bounds, regions by the bytes that were written in them."""
