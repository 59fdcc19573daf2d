"""A few words about each kernel, for a profile: its function, its constants, how many warps and stages."""

from __future__ import annotations

import json
import zlib
from typing import Any

from .files import name_configuration, write
from .values import describe_value

_OPTIONS = ("num_warps", "num_stages")


def record_configuration(kernel: Any) -> None:
    """Write what tells a compiled kernel from others of its name: the capture library knows the checksum."""
    jitted = getattr(kernel.src, "fn", None)
    if jitted is None:  # compiled from Triton's own IR
        return
    checksum = zlib.crc32(kernel.kernel)
    names = list(jitted.arg_names)
    constants = getattr(kernel.src, "constants", None) or getattr(kernel.src, "constexprs", None) or {}
    record = {
        "symbol": kernel.name,
        "checksum": checksum,
        "function": f"{jitted.fn.__module__}.{jitted.fn.__qualname__}",
        "constexprs": [describe_value(_name(names, key), value, []) for key, value in constants.items()],
        "options": [
            describe_value(option, getattr(kernel.metadata, option), [])
            for option in _OPTIONS
            if hasattr(kernel.metadata, option)
        ],
    }
    write(name_configuration(kernel.name, checksum), json.dumps(record).encode())


def _name(names: list[str], key: Any) -> str:
    path = key if isinstance(key, tuple) else (key,)
    first = names[path[0]] if isinstance(path[0], int) else str(path[0])
    return first + "".join(f"[{part}]" for part in path[1:])
