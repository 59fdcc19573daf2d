"""Judges what timed runs left: above ``validate``, which judges variants that are not timed."""
