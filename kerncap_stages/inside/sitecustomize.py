"""Found first by the Python of a program under capture: runs the user's own, and waits for Triton.

Runs when any Python starts, of any version. So it has no annotations, and imports next to nothing: that would
cost the program time, and could take a file of the program's for one of Python's.
"""
# mypy: ignore-errors

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))
_FOLDER = "KERNCAP_TRITON_RECORDS"  # the variable that names the folder of the records
_WATCHED = (
    "triton.compiler.compiler",
    "triton.runtime.autotuner",
    "torch._inductor.compile_worker.subproc_pool",
    "torch._inductor.runtime.benchmarking",
    "torch._inductor.runtime.triton_heuristics",
)


class _Finder:
    """Finds the modules that make and tune kernels as the others would. The recorder wraps what they hold."""

    def find_spec(self, name, path=None, target=None):
        if name not in _WATCHED:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _wrap_when_loaded(spec)
                return spec
        return None


def _wrap_when_loaded(spec):
    """Hand a module to the recorder once its own loader has run it."""
    try:
        recorder = _load_recorder()
        load = spec.loader.exec_module

        def load_and_wrap(module):
            load(module)
            if module.__name__ == spec.name:  # a loader may serve other modules, too
                recorder.wrap(module)

        spec.loader.exec_module = load_and_wrap
    except Exception as error:
        _report(error)


def _report(error):
    try:
        with open(os.path.join(os.environ[_FOLDER], "errors"), "a") as file:
            file.write("Triton cannot be watched: %r\n" % error)
    except Exception:
        pass


def _load_recorder():
    """Load the package beside this file, without a folder of ours on the program's path."""
    name = "kerncap_triton.records"
    if name not in sys.modules:
        from importlib import import_module
        from importlib.util import module_from_spec, spec_from_file_location

        folder = os.path.join(_HERE, "kerncap_triton")
        path = os.path.join(folder, "__init__.py")
        spec = spec_from_file_location("kerncap_triton", path, submodule_search_locations=[folder])
        package = sys.modules["kerncap_triton"] = module_from_spec(spec)
        spec.loader.exec_module(package)
        import_module(name)
    return sys.modules[name]


def _run_replaced():
    """Run the sitecustomize that this one stands in front of. The program sees its path as without us."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    ours = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401 - the next one on the path
    except ImportError as error:
        sys.modules[__name__] = ours
        if getattr(error, "name", __name__) != __name__:
            raise


if sys.version_info >= (3, 9) and os.environ.get(_FOLDER):
    sys.meta_path.insert(0, _Finder())
_run_replaced()
