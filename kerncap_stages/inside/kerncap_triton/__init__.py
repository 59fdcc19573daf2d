"""Records what Triton compiles in this process: a captured kernel can be traced to its Python function.

Runs in the user's program: the standard library only, in every Python that Triton supports, and no exception
of it reaches the program. Each compiled kernel becomes a file of JSON, named by the SHA-256 of its binary;
each source file a copy, named by the SHA-256 of its text. What fails is written to ``errors``.
"""
