"""Measures precision: the errors of the captured kernel and of a variant against true outputs.

``given`` lists what the user's reference gets, ``process`` runs it, ``child`` is that process, ``errors``
compares, ``measure`` does it all: docs/decisions/0083-precision-against-a-reference.md.
"""
