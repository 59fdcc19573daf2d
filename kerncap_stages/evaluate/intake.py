"""Reads and builds variants, in threads, ahead of the workers.

A verdict is on the bytes that were read here: workers get a copy of them, under a name of ours.
"""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kerncap_stages.digest import Digest
from kerncap_stages.errors import KerncapError, UsageError
from kerncap_stages.evaluate.building import read_source
from kerncap_stages.evaluate.entries import Answer, Entry
from kerncap_stages.evaluate.make_runner import BuildStoppedError, NotBuiltError
from kerncap_stages.evaluate.regular import read_regular_file
from kerncap_stages.evaluate.tasks import explain_unforeseen
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.replay.variant_shape import find_variant_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from kerncap_stages.evaluate.building import Builder
    from kerncap_stages.evaluate.candidates import Candidate

_MAX_AHEAD = 512  # entries that were read or built, and not judged
_MAX_CODE_BYTES = 2 << 30


class Intake:
    """Makes an entry of each candidate, in order, and tells when its code is known.

    tell: called in threads with an entry; with None after the last one; with an exception if the candidates
    could not be listed.
    """

    def __init__(
        self,
        candidates: Iterable[Candidate],
        folder: Path,
        builder: Builder | None,
        builds: int,
        tell: Callable[[Entry | Exception | None], None],
    ) -> None:
        """``folder``: for the code objects. ``builder``: None if sources cannot be built."""
        self._candidates = candidates
        self._folder = folder
        self._builder = builder
        self._tell = tell
        self._room = threading.Semaphore(_MAX_AHEAD)
        self._stopped = threading.Event()
        self._builds = ThreadPoolExecutor(builds)
        self._lock = threading.Lock()
        self._read = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def read(self) -> int:
        """How many code objects were read."""
        return self._read

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def release(self) -> None:
        """Make room for one more entry: one is finished."""
        self._room.release()

    def stop(self) -> None:
        """Read nothing more, and end what is built."""
        self._stopped.set()
        self._room.release()
        self._builds.shutdown(wait=False, cancel_futures=True)
        if self._builder is not None:
            self._builder.stop()

    def _run(self) -> None:
        try:
            for number, candidate in enumerate(self._candidates):
                self._room.acquire()
                if self._stopped.is_set():
                    return
                entry = Entry(number, candidate)
                if candidate.problem is not None:
                    entry.failed = Answer(Outcome.REFUSED, reasons=(candidate.problem,))
                    self._tell(entry)
                elif candidate.is_source or candidate.build is not None:
                    self._builds.submit(self._take, entry)
                else:
                    self._take(entry)
            self._builds.shutdown(wait=True)
            self._tell(None)
        except Exception as error:
            self._tell(error)

    def _take(self, entry: Entry) -> None:
        try:
            if entry.candidate.build is not None:
                code, entry.shape = entry.candidate.build()
            else:
                entry.shape = find_variant_shape(entry.candidate.path)
                code = self._build(entry) if entry.candidate.is_source else self._read_code(entry)
            entry.code_digest = Digest(hashlib.sha256(code).hexdigest())
            entry.code = self._keep(entry.code_digest, code)
        except BuildStoppedError:
            return  # there is an end: whoever handed it in is told that it was not judged
        except NotBuiltError as error:
            entry.failed = Answer(Outcome.NOT_BUILT, reasons=(str(error),))
        except UsageError as error:
            entry.failed = Answer(Outcome.REFUSED, reasons=(str(error),))
        except (KerncapError, OSError) as error:  # the machine's, or the store's
            self._tell(error)
            return
        except Exception as error:  # a file may hold anything, and the others are judged all the same
            entry.failed = Answer(Outcome.UNJUDGED, reasons=(explain_unforeseen(error),))
        with self._lock:
            self._read += 1
            entry.read_at = self._read
        if not self._stopped.is_set():
            self._tell(entry)

    def _read_code(self, entry: Entry) -> bytes:
        try:
            return read_regular_file(entry.candidate.path, _MAX_CODE_BYTES)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"cannot be read: {why}") from error

    def _build(self, entry: Entry) -> bytes:
        if self._builder is None:
            raise UsageError("a source can be built in a project only: give the folder that kc-generate made")
        path = entry.candidate.path
        self._builder.refuse(path.suffix)
        flags = self._builder.choose_flags(entry.candidate.flags)
        source = read_source(path)
        entry.source_digest = Digest(hashlib.sha256(source).hexdigest())
        return self._builder.build(source, flags)

    def _keep(self, digest: Digest, code: bytes) -> Path:
        """Write the code where workers read it; those of several entries may be the same."""
        path = self._folder / digest
        with self._lock:
            if not path.exists():
                draft = path.with_suffix(".tmp")
                draft.write_bytes(code)
                draft.replace(path)
        return path
