"""Deciding whether a variant does what the baseline did, from states before and after."""
