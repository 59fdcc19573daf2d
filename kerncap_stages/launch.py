"""Where every executable begins: Ctrl-C ends it without a traceback from the first moment on.

Only the console scripts import this: it changes what a signal does. While a stage is being imported there is
nothing to undo, so SIGINT has the system's own action; ``console.run`` takes it over once there is.
"""

from __future__ import annotations

import signal

# None of a script in the background, which ignores it, nor of a program that has its own.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = {
    "kc_assemble": "kerncap_stages.cli.commands.assemble",
    "kc_capture": "kerncap_stages.cli.commands.capture",
    "kc_extract": "kerncap_stages.compat.extract_cli",
    "kc_generate": "kerncap_stages.cli.commands.generate",
    "kc_locate": "kerncap_stages.cli.commands.locate",
    "kc_profile": "kerncap_stages.cli.commands.profile",
    "kc_replay": "kerncap_stages.cli.commands.replay",
    "kc_root": "kerncap_stages.rocm_root.cli",
    "kc_show": "kerncap_stages.cli.commands.show",
    "kc_softgpu": "kerncap_stages.cli.commands.softgpu",
    "kc_store": "kerncap_stages.cli.commands.store_cli",
    "kc_validate": "kerncap_stages.cli.commands.validate",
    "kerncap": "kerncap_stages.compat.kerncap_cli",
    "kerncap_mcp": "kerncap_stages.compat.mcp_cli",
    "kerncap_replay": "kerncap_stages.compat.replay_cli",
}


def __getattr__(name: str) -> Callable[[], object]:
    """The function of an executable, which is called like it with `_` for `-`."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def start() -> object:
        return import_module(_MODULES[name]).main()

    return start
