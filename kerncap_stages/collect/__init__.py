"""The collector: runs a program with a capture library inside, and takes in what the library sends.

Both stages run a program in the same way; a capture goes like this:

1. ``capture.run_capture`` (or ``profile.run_profile``) is the engine. It starts a ``server.Collector``.
2. The collector starts the program (``program``). A thread serves each of its processes (``connection``).
3. ``capture_session`` answers one process: it selects kernels by name, and takes in the memory.
4. ``capture_builder`` puts each memory into a transaction of the store. It publishes the manifest when all
   is there.
5. The events that this makes come out of ``run_capture``. If there are none, ``no_capture`` explains why.
"""
