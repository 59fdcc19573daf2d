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
    names = list(jitted.arg_names)
    constants = getattr(kernel.src, "constants", None) or getattr(kernel.src, "constexprs", None) or {}
    record_named_configuration(
        kernel.name,
        kernel.kernel,
        f"{jitted.fn.__module__}.{jitted.fn.__qualname__}",
        {_name(names, key): value for key, value in constants.items()},
        {option: getattr(kernel.metadata, option, None) for option in _OPTIONS},
    )


def record_named_configuration(
    symbol: str, code: bytes, function: str, constants: dict[str, Any], options: dict[str, Any]
) -> None:
    """Write what tells a code object from others of its symbol. Of ``options``, only some are kept."""
    checksum = zlib.crc32(code)
    record = {
        "symbol": symbol,
        "checksum": checksum,
        "function": function,
        "constexprs": [describe_value(name, value, []) for name, value in constants.items()],
        "options": [
            describe_value(option, options[option], [])
            for option in _OPTIONS
            if options.get(option) is not None
        ],
    }
    write(name_configuration(symbol, checksum), json.dumps(record).encode())


def _name(names: list[str], key: Any) -> str:
    path = key if isinstance(key, tuple) else (key,)
    first = names[path[0]] if isinstance(path[0], int) else str(path[0])
    return first + "".join(f"[{part}]" for part in path[1:])
