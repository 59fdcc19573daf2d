"""What docs/software-gpu.md says is refused by name is exactly what has no handler.

refused_in_docs.py TARGET REFUSED_OPCODES PAGE
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def documented(page: str, target: str) -> set[str]:
    """The names in the rows of "Refused by name" that are for this target."""
    section = page.partition("### Refused by name")[2].partition("\n## ")[0]
    names: set[str] = set()
    for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE):
        targets, listed, *_ = (column.strip() for column in row.split(" | "))
        if target in targets or targets == "both":
            names |= set(re.findall(r"`([a-z0-9_]+)`", listed))
    return names


def main() -> int:
    """Compare, print, and say whether they agree."""
    target, program, page = sys.argv[1:]
    refused = set(
        subprocess.run([program, target], capture_output=True, text=True, check=True).stdout.split()
    )
    listed = documented(Path(page).read_text(), target)
    print(f"{target}: {len(refused)} opcodes without a handler")
    print("not in the page:", *sorted(refused - listed))
    print("in the page, but not refused:", *sorted(listed - refused))
    return 0 if refused == listed and refused else 1


if __name__ == "__main__":
    sys.exit(main())
