"""Verdicts and times of many variants: candidates, workers, ranks."""
