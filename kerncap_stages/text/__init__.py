"""Writes facts for people: sizes, counts, names of kernels, text that is safe to print on a terminal."""
