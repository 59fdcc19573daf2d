"""Searching for the fastest configuration of a project: parameters, proposals, the winner."""
