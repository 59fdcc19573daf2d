"""The machine that this runs on: its GPUs and libraries, its tools, temporary folders."""
