"""Found first by the Python of a program under capture: records Triton kernels, then runs the user's own."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

_HERE = os.path.dirname(os.path.abspath(__file__))
_ELSEWHERE = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]


def _run_replaced() -> None:
    """Run the sitecustomize that this one stands in front of."""
    spec = PathFinder.find_spec(__name__, _ELSEWHERE)
    if spec is None or spec.loader is None:
        return
    replaced = module_from_spec(spec)
    sys.modules[__name__] = replaced
    spec.loader.exec_module(replaced)


try:
    import kerncap_triton  # type: ignore[import-not-found]  # it is beside this file

    kerncap_triton.watch_imports()
except SyntaxError:
    pass  # this Python is older than any that Triton supports
finally:
    # The program sees its path as it would be without us. Its own processes inherit the variable.
    sys.path[:] = _ELSEWHERE
    _run_replaced()
