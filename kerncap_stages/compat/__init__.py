"""The front: what runs several stages, and the documented class and commands of kerncap.

It stands above the stages and may import them; nothing but the package's own ``__init__`` imports it.
"""
