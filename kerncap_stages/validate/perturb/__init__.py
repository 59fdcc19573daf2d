"""Perturbing the memory that a kernel starts from, to see what it reads and writes."""
