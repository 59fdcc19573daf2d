"""A study's folder belongs to one run at a time, and all its steps are of one commit of one checkout."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from running import StepError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LOCK, MADE_BY, STEPS = "lock", "made-by.json", "steps"
ARCHIVES = "*.tar.gz"  # kept by --afresh: each run compares their SHA-256
ROOT = Path("/etc/kerncap-root.json")
PAGE = ("results.json", "README.md", "*.svg")  # a study writes these itself


@contextmanager
def hold(folder: Path, made_by: Mapping[str, Any], *, afresh: bool) -> Iterator[None]:
    """Keep other runs from the folder in this block.

    Raises StepError if another run has it, if its steps were made by something else than ``made_by``, or if
    it is no study's. With ``afresh``, what is in it is dropped, but for source archives.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_studys = _is_studys(folder)
        lock = (folder / LOCK).open("a") if is_studys else None
    except OSError as error:
        raise StepError(f"{folder} cannot be used: {error.strerror}\n  next: --folder OTHER") from error
    if lock is None:
        raise StepError(f"{folder} is neither empty nor a study's folder\n  next: --folder OTHER")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StepError(
                f"another run uses {folder}\n  next: wait until it has ended, or --folder OTHER"
            ) from None
        if afresh:
            _drop(folder)
        elif (folder / STEPS).is_dir():
            _compare(folder, made_by)
        (folder / MADE_BY).write_text(json.dumps(made_by, indent=1) + "\n")
        (folder / STEPS).mkdir(exist_ok=True)
        yield


def describe_run(here: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Say what makes the steps: ``here`` is the study's folder in its checkout."""
    return {"study": here.name, **describe_checkout(here), **_describe_root(), **options}


def describe_checkout(here: Path) -> dict[str, str]:
    """Say which checkout has the folder ``here``, its commit, and what was changed since."""
    top = _git(here, "rev-parse", "--show-toplevel").decode().strip()
    if not top:
        return {"checkout": str(here), "commit": "unknown", "changes": "unknown"}
    studies = here.parent.relative_to(top).as_posix()
    where = (".", *(f":(exclude,top){studies}/*/{name}" for name in PAGE))
    changes = _git(Path(top), "diff", "HEAD", "--binary", "--no-ext-diff", "--", *where)
    added = _git(Path(top), "ls-files", "-z", "--others", "--exclude-standard", "--", *where)
    for name in filter(None, added.decode(errors="surrogateescape").split("\0")):
        file = Path(top, name)
        content = file.read_bytes() if file.is_file() else b""
        changes += f"{name}\0{hashlib.sha256(content).hexdigest()}\0".encode(errors="surrogateescape")
    return {
        "checkout": top,
        "commit": _git(here, "rev-parse", "HEAD").decode().strip() or "none",
        "changes": _shorten(changes) if changes else "none",
    }


def _is_studys(folder: Path) -> bool:
    """Whether the folder has steps of a study, or nothing."""
    return (folder / STEPS).is_dir() or all(path.name in (LOCK, MADE_BY) for path in folder.iterdir())


def _compare(folder: Path, made_by: Mapping[str, Any]) -> None:
    file = folder / MADE_BY
    found = json.loads(file.read_text()) if file.exists() else {}
    differences = [
        f"  {name}: {found.get(name, 'unknown')} there, {made_by.get(name, 'none')} here"
        for name in {**made_by, **found}
        if found.get(name) != made_by.get(name)
    ]
    if differences:
        raise StepError(
            "\n".join(
                [
                    f"the steps in {folder} are of another run:",
                    *differences,
                    "  next: --folder OTHER leaves them alone; --afresh drops them, and does all steps again",
                ]
            )
        )


def _drop(folder: Path) -> None:
    """Remove all but the lock and archives."""
    (folder / MADE_BY).unlink(missing_ok=True)  # from here on a run that is killed leaves nothing to go on
    kept = {folder / LOCK, folder / STEPS, *folder.glob(ARCHIVES)}
    for path in [*folder.glob(f"{STEPS}/*"), *folder.iterdir()]:
        if path in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _describe_root() -> dict[str, str]:
    """Say which ROCm root this is: compilers and libraries are of it."""
    if not ROOT.exists():
        return {"root": "none"}
    root = json.loads(ROOT.read_text())
    packages = json.dumps(root["packages"], sort_keys=True)
    return {"root": f"ROCm {root['rocm']} with the packages {_shorten(packages.encode())}"}


def _shorten(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _git(folder: Path, *words: str) -> bytes:
    """Return what git prints; nothing where there is no git, or no checkout."""
    if shutil.which("git") is None:
        return b""
    return subprocess.run(["git", "-C", folder, *words], capture_output=True, check=False).stdout
