"""Run a command in a root: make private mounts, show the caller's folders at the same paths, then exec.

The process becomes the command (exec). So signals, Ctrl-C and exit codes are the command's own. If it is
killed, nothing remains, because the mounts belong to the process and its children only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kerncap_stages.errors import DeviceError, Refused, UsageError
from kerncap_stages.rocm_root import host, namespaces
from kerncap_stages.rocm_root.cache import Root, find_cache_folder, hold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Written into every root (and image) that is made by the recipe.
MARKER = Path("/etc/kerncap-root.json")
ROOT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# These are always the machine's own.
_DEVICES = ("dev", "proc", "sys", "tmp")
# These are valid on this machine only, or would load its libraries into the root's programs.
_DROPPED = {
    "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH", "HIP_PATH", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD",
    "MANPATH", "PKG_CONFIG_PATH", "ROCM_PATH", "TMPDIR", "VIRTUAL_ENV",
}  # fmt: skip


def find_source_tree() -> Path | None:
    """Return the source tree from which this module was started; None if it is installed."""
    top = Path(__file__).resolve().parents[2]
    return top if (top / "pyproject.toml").is_file() else None


def list_visible_folders(extra: Sequence[Path] = ()) -> list[Path]:
    """List the folders that a root shows at the same path: home, project, cache and working folder."""
    wanted = [Path.home(), Path.cwd(), find_cache_folder(), *extra]
    if top := find_source_tree():
        wanted.append(top)
    chosen: list[Path] = []
    for path in sorted({path.absolute() for path in wanted}):
        inside = any(
            path.is_relative_to(parent) for parent in [*chosen, *(Path("/", name) for name in _DEVICES)]
        )
        if not inside and path.exists() and path != Path("/"):
            chosen.append(path)
    return chosen


def make_environment(root_variables: Mapping[str, str]) -> dict[str, str]:
    """Return the caller's environment without the variables of the machine's libraries and Python."""
    other_python = ("PYENV_", "PYTHON")
    kept = {k: v for k, v in os.environ.items() if k not in _DROPPED and not k.startswith(other_python)}
    kept.update(
        PATH=ROOT_PATH, LANG="C.UTF-8", PYTHONNOUSERSITE="1", KERNCAP_ROOT_CACHE=str(find_cache_folder())
    )
    kept.update(root_variables)
    return kept


def run(root: Root, command: Sequence[str], *, folders: Sequence[Path] = ()) -> NoReturn:
    """Become ``command`` inside ``root``. The root stays locked (shared) until the last child has ended."""
    lock = hold(root, exclusive=False)
    if not root.exists():
        raise Refused(f"root {root.key} was removed meanwhile", hint="run it again")
    os.set_inheritable(lock, True)
    settings = host.read_pip_settings()
    pip_file = find_cache_folder() / "pip.conf"
    fresh = pip_file.with_suffix(f".{os.getpid()}")
    fresh.write_text(host.format_pip_configuration(settings))
    fresh.replace(pip_file)  # another run may be reading it
    enter_view(root.files, list_visible_folders(folders), read_only=True)
    become(command, make_environment({"PIP_CONFIG_FILE": str(pip_file)}))


def run_here(command: Sequence[str]) -> NoReturn:
    """Become ``command`` on a machine that is itself a root: the image of the Containerfile."""
    become(command, make_environment({}))


def become(command: Sequence[str], variables: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command. If that fails, exit with 126 or 127, as a shell does."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), dict(variables))  # noqa: S606 - running a command is the job
    except OSError as error:
        print(f"kc-root: {command[0]}: {error.strerror}", file=sys.stderr)
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


def enter_view(files: Path, folders: Sequence[Path], *, read_only: bool) -> None:
    """Enter a mount namespace and a root in which ``folders`` and the working folder keep their paths."""
    working = Path.cwd()
    namespaces.enter_private_mounts()
    try:
        namespaces.bind(files, files)
        for name in _DEVICES:
            namespaces.bind(Path("/", name), files / name)
        for name in ("etc/resolv.conf", "etc/hosts"):
            _show(Path("/", name), files)
        for folder in folders:
            if hides(folder, files):
                raise UsageError(
                    f"{folder} would hide a folder of the root", hint="work in a folder elsewhere"
                )
            _show(folder, files)
        if read_only:
            _show(host.CA_BUNDLE, files)
            for path in host.list_local_paths(host.read_pip_settings()):
                if not hides(path, files):
                    _show(path, files)
            for name in ("run", "var/tmp"):
                namespaces.mount("tmpfs", files / name, "tmpfs", 0, "mode=1777")
            namespaces.make_read_only(files)
        os.chroot(files)
        os.chdir(working if working.is_dir() else "/")
    except OSError as error:
        raise DeviceError(str(error), hint="look at the permissions of the cache folder") from error


def hides(path: Path, files: Path) -> bool:
    """Whether the root has its own files at ``path``. Empty folders do not count: earlier runs made them."""
    target = files / path.relative_to("/")
    if os.path.ismount(target):
        return False
    if target.is_file():
        return target.stat().st_size > 0
    return any(names for _, _, names in os.walk(target))


def _show(path: Path, files: Path) -> None:
    """Bind ``path`` at the same path below ``files``, if this machine has it."""
    target = files / path.relative_to("/")
    if path.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif path.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    else:
        return
    namespaces.bind(path.resolve(), target)
