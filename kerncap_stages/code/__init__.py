"""Reads formats of code (code objects, cubins, fatbins, PTX), and names of kernels, types and targets."""
