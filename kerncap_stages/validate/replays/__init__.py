"""Replays of the captured kernel and of variants: speculative ones, and those of earlier verdicts."""
