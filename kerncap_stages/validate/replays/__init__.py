"""Replays of the captured kernel and of variants: begun ahead, made once, or kept by earlier validations."""
