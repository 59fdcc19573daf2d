"""`make shell`: start a shell, or a command as if typed there. Programs in it run on the software GPU.

If the machine has a GPU, programs run on that. The Python of the checkout's environment runs this file:
shell.py [COMMAND ...]. pytest gets no GPU from it, because tests choose their own.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from kerncap_stages.errors import UsageError
from kerncap_stages.machine.softgpu import prepare_shell
from kerncap_stages.rocm_root.enter import MARKER

START_FILE = Path(__file__).with_name("shell.bash")
# bash defines a function from each variable with a name of this form.
_PYTEST = {"BASH_FUNC_pytest%%": '() { env -u LD_PRELOAD -u KERNCAP_SOFTGPU pytest "$@"; }'}


def prompt(rocm: str, *, is_on_software_gpu: bool) -> str:
    """Return a prompt that names the ROCm version, and the software GPU if programs run on it."""
    place = f"ROCm {rocm}" + (", software GPU" if is_on_software_gpu else "")
    return rf"[{place}] \w\$ "


def main() -> NoReturn:
    """Become the command, or the shell."""
    words = sys.argv[1:]
    try:
        added = {} if words[:1] == ["pytest"] else prepare_shell(os.environ)
    except UsageError as error:
        sys.exit(str(error))
    if added:
        added.update(_PYTEST)
    if not words:
        rocm = json.loads(MARKER.read_text())["rocm"]
        added["KERNCAP_PROMPT"] = prompt(rocm, is_on_software_gpu=bool(added))
        words = ["/bin/bash", "--rcfile", str(START_FILE)]
    try:
        os.execvpe(words[0], words, {**os.environ, **added})  # noqa: S606 - becoming the command is the job
    except OSError as error:
        sys.exit(f"{words[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
