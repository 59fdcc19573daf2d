"""Runs a command with a small disk of its own: small_disk.py FOLDER SIZE_BYTES COMMAND...

The disk is a tmpfs at FOLDER that only the command sees.
Calls the kernel itself, as a ROCm root need not hold the mount command.
"""

from __future__ import annotations

import ctypes
import os
import sys

_CLONE_NEWNS = 0x00020000
_MS_REC, _MS_PRIVATE = 16384, 1 << 18


def main() -> None:
    folder, size_bytes, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        sys.exit(f"nothing can be mounted: {os.strerror(ctypes.get_errno())}")
    # In a chroot / is no mount that could be made private; then nothing of ours is shared either.
    libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size_bytes}".encode()) != 0:
        sys.exit(f"nothing can be mounted: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
