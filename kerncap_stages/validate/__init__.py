"""Judges whether a variant gives the same outputs as the captured kernel."""
