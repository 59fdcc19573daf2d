"""Runs a command that finds a folder read-only: read_only_folder.py FOLDER COMMAND..."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from kerncap_stages.rocm_root.namespaces import bind, enter_private_mounts, make_read_only


def main() -> None:
    folder, *command = sys.argv[1:]
    enter_private_mounts()
    bind(Path(folder), Path(folder))
    make_read_only(Path(folder))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
