"""Perturbs the memory that a kernel starts from, to find out what it writes."""
