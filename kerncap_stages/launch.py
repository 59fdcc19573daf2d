"""Start an executable, so that Ctrl-C ends it without a traceback from the first moment on.

Only the console scripts import this module, because it changes what a signal does. While a stage is imported,
nothing must be undone, so SIGINT has the system's own action; ``console.run`` handles it later. Until the
first lines below have run, Ctrl-C prints a traceback. So they load no module from disk: ``_signal`` is built
into the interpreter, while ``signal`` and ``typing`` take ten milliseconds.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed has no stub of it

# Leave SIGINT alone if it is ignored, as in a shell's background job, or if a program has set its own
# handler.
if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)

import gc
import os
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_OBJECTS_UNTIL_COLLECTION = 200_000
_MODULES = {
    "kc_assemble": "kerncap_stages.cli.commands.assemble",
    "kc_capture": "kerncap_stages.cli.commands.capture",
    "kc_evaluate": "kerncap_stages.cli.commands.evaluate",
    "kc_evaluate_serve": "kerncap_stages.cli.commands.evaluate_serve",
    "kc_extract": "kerncap_stages.compat.extract_cli",
    "kc_generate": "kerncap_stages.cli.commands.generate",
    "kc_locate": "kerncap_stages.cli.commands.locate",
    "kc_profile": "kerncap_stages.cli.commands.profile",
    "kc_replay": "kerncap_stages.cli.commands.replay",
    "kc_root": "kerncap_stages.rocm_root.cli",
    "kc_run": "kerncap_stages.cli.commands.run",
    "kc_show": "kerncap_stages.cli.commands.show",
    "kc_softgpu": "kerncap_stages.cli.commands.softgpu",
    "kc_store": "kerncap_stages.cli.commands.store_cli",
    "kc_tune": "kerncap_stages.cli.commands.tune",
    "kc_validate": "kerncap_stages.cli.commands.validate",
    "kerncap": "kerncap_stages.compat.kerncap_cli",
    "kerncap_mcp": "kerncap_stages.compat.mcp_cli",
    "kerncap_replay": "kerncap_stages.compat.replay_cli",
}


def __getattr__(name: str) -> Callable[[], object]:
    """Return the function that starts an executable; its name is the executable's, with `_` for `-`."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def start() -> object:
        if "COMP_WORDS" in os.environ:  # bash completes a word
            # All other starts do without this module.
            from kerncap_stages.completion import join_words

            join_words(os.environ)
        # Imports make a hundred thousand objects that stay: to look for garbage among them takes a tenth of
        # the imports' time.
        gc.set_threshold(_OBJECTS_UNTIL_COLLECTION)
        return import_module(_MODULES[name]).main()

    return start
