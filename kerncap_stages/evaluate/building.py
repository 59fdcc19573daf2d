"""Builds variants from sources, each in the place of a project's own source, by the project's own Makefile.

A project is copied once for each build that runs at the same time, without its capture. So builds neither
meet each other nor change the user's project, and what its Makefile keeps (a precompiled header) is kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import queue
import shutil
import signal
import subprocess
from typing import TYPE_CHECKING

from kerncap_stages.compilers.dependencies import find_first_error
from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.recipe import read_recipe
from kerncap_stages.evaluate.tools import identify_tools
from kerncap_stages.generate.mirror import make_nvcc_response_text
from kerncap_stages.generate.overlay import make_response_text
from kerncap_stages.project.checkout import CAPTURE
from kerncap_stages.project.variants import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_BUILT = (*VARIANTS, "built.sha256")
_FLAG_FILES = "compile_flags*.rsp"
_MAX_SAID = 64 << 10
_MAX_SOURCE_BYTES = 64 << 20


class NotBuiltError(Exception):
    """The source does not compile; the text is the first error."""


class Builder:
    """Builds sources with what a project records."""

    def __init__(self, project: Path, work: Path, places: int, timeout_s: float) -> None:
        """``work``: a folder for copies. ``places``: how many builds run at once.

        ``recipe``: a digest of all that a build depends on beside its source and flags; None if that is not
        known. Raises UsageError if the project has no source that can be built.
        """
        self._project = project
        self._timeout_s = timeout_s
        recipe = read_recipe(project)
        if recipe is None:
            raise UsageError(
                f"{project} has no source that another one could replace",
                hint="give code objects, or a project with a kernel_variant file",
            )
        self._source = recipe.source
        self.refuse, self.choose_flags = recipe.refuse, recipe.choose_flags
        self._flags = {each.name: each.read_bytes() for each in project.glob(_FLAG_FILES)}
        self._quote = make_response_text if recipe.is_clang else make_nvcc_response_text
        tools = identify_tools(project)
        self.recipe = None if tools is None else self._hash_recipe(tools)
        self._places: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for number in range(places):
            self._places.put(work / f"build-{number}")
        self._running: set[subprocess.Popen[bytes]] = set()

    def build(self, source: bytes, flags: Sequence[str]) -> bytes:
        """Return the code object of a source. Threads may call it at the same time.

        The source was not refused. flags: as ``choose_flags`` returned them.
        Raises NotBuiltError if it does not compile.
        """
        with self._take_place() as place:
            (place / self._source).write_bytes(source)
            for name, given in self._flags.items():
                told = given + self._quote(flags).encode(errors="surrogateescape")
                # make and the precompiled header look at the time of this file.
                if (place / name).read_bytes() != told:
                    (place / name).write_bytes(told)
            return self._make(place, "assemble" if self._source.endswith(".s") else "recompile")

    def stop(self) -> None:
        """End all builds that run."""
        for process in self._running.copy():
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)

    def _make(self, place: Path, target: str) -> bytes:
        for name in _BUILT:
            (place / name).unlink(missing_ok=True)
        process = subprocess.Popen(
            ["make", "-s", "-C", str(place), target],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us
        )
        self._running.add(process)
        try:
            _, said = process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired:
            raise NotBuiltError(f"it did not compile within {self._timeout_s:g} s") from None
        finally:
            with contextlib.suppress(OSError):  # also what make started
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
            self._running.discard(process)
        built = next((place / name for name in VARIANTS if (place / name).is_file()), None)
        if process.returncode != 0 or built is None:
            text = said[-_MAX_SAID:].decode(errors="replace").replace(f"{place}/", "")
            raise NotBuiltError(find_first_error(text))
        return built.read_bytes()

    @contextlib.contextmanager
    def _take_place(self) -> Iterator[Path]:
        place = self._places.get()
        try:
            if not place.is_dir():
                skipped = shutil.ignore_patterns(*_BUILT)
                place.mkdir()
                for each in self._project.iterdir():
                    if each.name == CAPTURE or each.name in _BUILT:
                        continue
                    if each.is_dir():
                        shutil.copytree(each, place / each.name, symlinks=True, ignore=skipped)
                    else:
                        shutil.copy2(each, place / each.name, follow_symlinks=False)
            yield place
        finally:
            self._places.put(place)

    def _hash_recipe(self, tools: str) -> str:
        """Hash all that a build reads in the project, but its own source, and the compilers."""
        hasher = hashlib.sha256(tools.encode())
        for path in sorted(self._project.rglob("*")):
            below = path.relative_to(self._project)
            if below.parts[0] == CAPTURE or path.name in (*_BUILT, self._source) or not path.is_file():
                continue
            if path.suffix in (".pch", ".gch", ".o"):
                continue
            hasher.update(os.fsencode(below) + b"\0")
            hasher.update(hashlib.sha256(path.read_bytes()).digest())
        return hasher.hexdigest()


def read_source(path: Path) -> bytes:
    """Read a source. Raises NotBuiltError if it cannot be read."""
    try:
        return read_regular_file(path, _MAX_SOURCE_BYTES)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise NotBuiltError(f"cannot be read: {why}") from error


def read_regular_file(path: Path, most_bytes: int) -> bytes:
    """Read a file. A pipe would hold us, and a device would never end.

    Raises OSError if it cannot be read, ValueError if it is not a regular file, or is too large.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        status = os.fstat(file.fileno())
        if not path.is_file():
            raise ValueError("it is not a regular file")
        if status.st_size > most_bytes:
            raise ValueError(f"it has {status.st_size} bytes, and at most {most_bytes} are read")
        return file.read()
