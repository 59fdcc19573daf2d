"""Comparing memory: elements by their type and bounds, regions by what was written in them."""
