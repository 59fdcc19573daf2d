"""Steps of tests of kc-store: putting by the executable, looking at folders, damaging objects."""

from __future__ import annotations

import hashlib
import os

import stores


def tree_of(top):
    """What is in a folder: kind, mode and contents of everything, by its path."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder",)
        else:
            found[name] = ("file", os.access(path, os.X_OK), hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def put(kc, path):
    done = kc("put", path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return done.stdout.strip()


def damage(store, digest, change):
    file = stores.object_file(store, digest)
    content = bytearray(file.read_bytes())
    file.chmod(0o600)
    change(content)
    file.write_bytes(content)


def flip(content):
    content[len(content) // 2] ^= 1
