"""All stages in one command, and the documented class and commands of kerncap.

It may import the stages. Only the package's own ``__init__`` imports it.
"""
