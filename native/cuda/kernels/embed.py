"""Turns PTX into a C++ source that holds it as a string."""

from __future__ import annotations

import sys
from pathlib import Path

source, target = Path(sys.argv[1]), Path(sys.argv[2])
quoted = source.read_text(encoding="utf-8").replace('"', '\\"')
lines = "\n".join(f'    "{line}\\n"' for line in quoted.splitlines())
target.write_text(
    f"""// Made from {source.name}.
namespace kerncap::cuda {{

extern const char k_{source.stem}_ptx[];
const char k_{source.stem}_ptx[] =
{lines};

}}  // namespace kerncap::cuda
""",
    encoding="utf-8",
)
