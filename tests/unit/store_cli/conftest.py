"""kc-store by its executable, and a folder to put."""

from __future__ import annotations

import random

import executables
import pytest


@pytest.fixture
def kc(store):
    def run(*arguments, **options):
        return executables.run("kc-store", *arguments, store=store.root, **options)

    return run


@pytest.fixture
def folder(tmp_path):
    """A folder with all that a folder may hold."""
    top = tmp_path / "data"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "none" / "at all").mkdir(parents=True)
    (top / "empty").touch()
    (top / "text.txt").write_text("text")
    (top / "sub" / "run.sh").write_text("#!/bin/sh\n")
    (top / "sub" / "run.sh").chmod(0o755)
    (top / "sub" / "deep" / "large.bin").write_bytes(random.Random(1).randbytes((9 << 20) + 17))
    (top / "sub" / "zeros.bin").write_bytes(bytes(5 << 20))
    (top / "naïve 核.bin").write_bytes(b"\x00\x01")
    (top / "sub" / "link").symlink_to("../text.txt")
    (top / "sub" / "to nothing").symlink_to("nowhere")
    return top
