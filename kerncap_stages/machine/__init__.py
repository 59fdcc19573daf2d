"""The machine that the stages run on: its GPUs, native parts, tools, packages and temporary folders."""
