"""Every error that a user can meet, each with the exit code that all executables share."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes, the same for every executable and shown in every ``--help``."""

    DONE = 0
    ANSWER_IS_NO = 1
    USAGE = 2
    ARTIFACT = 3
    DEVICE = 4
    PROGRAM = 5
    REFUSED = 6


class KerncapError(RuntimeError):
    """Base of all errors; ``hint`` is the next step for the user.

    It is a RuntimeError because users of kerncap catch that.
    """

    exit_code = ExitCode.DEVICE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class AnswerIsNo(KerncapError):  # noqa: N818 - an answer, not a fault
    """The stage ran and the answer is no: validation failed, kernel never dispatched."""

    exit_code = ExitCode.ANSWER_IS_NO


class UsageError(KerncapError):
    """The command line is wrong."""

    exit_code = ExitCode.USAGE


class ArtifactError(KerncapError):
    """An artifact or the store cannot be used."""

    exit_code = ExitCode.ARTIFACT


class ArtifactNotFound(ArtifactError):  # noqa: N818
    """No artifact, object or name matches what was given."""


class DigestMismatch(ArtifactError):  # noqa: N818
    """Stored bytes do not hash to their digest, or are truncated or malformed."""


class StoreError(ArtifactError):
    """The store cannot be read or written: a full disk, missing rights, or an I/O error."""


class ManifestUnreadable(ArtifactError):  # noqa: N818
    """A manifest has an unknown kind or version, is malformed, or is not in canonical form."""


class DeviceError(KerncapError):
    """A toolchain, driver or device failed."""


class ProgramError(KerncapError):
    """The program under profile or capture failed."""

    exit_code = ExitCode.PROGRAM


class ProgramTimedOut(ProgramError, TimeoutError):  # noqa: N818
    """The program reached its time limit before its work was done, and was ended."""


class Refused(KerncapError):  # noqa: N818
    """The request is refused, and the message says why: for example an unsupported kind of memory."""

    exit_code = ExitCode.REFUSED
