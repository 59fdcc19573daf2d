"""Reads what a client posts: the variants to evaluate, and the ids of tasks to look at.

{"capture": DIGEST, "variants": [VARIANT, …]}      or "project": NAME instead of the capture
VARIANT = {"code": BASE64, "suffix": ".hsaco"}     a code object
| {"source": TEXT, "suffix": ".hip"}       a source, for a project; also "source_base64"
with    "name": TEXT, "flags": [TEXT, …], "launch": {"grid_blocks": [64, 1, 1], …}
{"ids": [ID, …], "timeout": SECONDS}
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.candidates import CODE_SUFFIXES, SOURCE_SUFFIXES
from kerncap_stages.replay.variant_shape import read_shape

MAX_VARIANTS = 1000  # in one request
MAX_WAIT_S = 300.0
_MAX_NAME = 1000
_MAX_FLAGS = 200
_MEMBERS = {"name", "code", "source", "source_base64", "suffix", "flags", "launch"}
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PostedVariant:
    """One variant. ``launch``: as the file beside a variant has it, as JSON; None: as captured."""

    name: str
    content: bytes
    suffix: str
    flags: tuple[str, ...]
    launch: str | None

    def without_content(self) -> PostedVariant:
        """Return it without its bytes, which nobody needs once it was judged."""
        return replace(self, content=b"")

    def make_id(self, subject: str) -> str:
        """Return the id of its task: the same variant of the same subject has the same one."""
        parts = [
            subject,
            self.suffix,
            list(self.flags),
            self.launch,
            hashlib.sha256(self.content).hexdigest(),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@dataclass(frozen=True)
class Posted:
    """A request to evaluate. One of ``capture`` and ``project`` is not None."""

    capture: str | None
    project: str | None
    variants: tuple[PostedVariant, ...]


@dataclass(frozen=True)
class Asked:
    """A request to look at tasks."""

    ids: tuple[str, ...]
    timeout_s: float


def read_posted(body: bytes) -> Posted:
    """Read the body of a request to evaluate. Raises UsageError if it is not one."""
    read = _read_object(body, {"capture", "project", "variants"})
    capture, project, variants = read.get("capture"), read.get("project"), read.get("variants")
    if (capture is None) == (project is None):
        raise UsageError("give either capture or project")
    if capture is not None and not (isinstance(capture, str) and _DIGEST.fullmatch(capture)):
        raise UsageError("capture must be a digest of 64 hexadecimal digits")
    if project is not None and not isinstance(project, str):
        raise UsageError("project must be a text")
    if not isinstance(variants, list) or not 0 < len(variants) <= MAX_VARIANTS:
        raise UsageError(f"variants must be a list of 1 to {MAX_VARIANTS} objects")
    return Posted(capture, project, tuple(_read_variant(place, each) for place, each in enumerate(variants)))


def read_asked(body: bytes) -> Asked:
    """Read the body of a request to look at tasks. Raises UsageError if it is not one."""
    read = _read_object(body, {"ids", "timeout"})
    ids = read.get("ids")
    if (
        not isinstance(ids, list)
        or len(ids) > 10 * MAX_VARIANTS
        or not all(isinstance(each, str) for each in ids)
    ):
        raise UsageError(f"ids must be a list of at most {10 * MAX_VARIANTS} texts")
    timeout = read.get("timeout", 0)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise UsageError("timeout must be a number")
    return Asked(tuple(ids), check_timeout(timeout))


def check_timeout(seconds: float) -> float:
    """Return a time to wait. Raises UsageError if it is negative, too long, or not a number."""
    if not 0 <= seconds <= MAX_WAIT_S:
        raise UsageError(f"timeout must be from 0 to {MAX_WAIT_S:g} seconds")
    return float(seconds)  # an integer may be too large for one


def _read_object(body: bytes, known: set[str]) -> dict[str, Any]:
    try:
        read = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body must be JSON: {error}") from error
    if not isinstance(read, dict):
        raise UsageError("the body must be a JSON object")
    if unknown := sorted(set(read) - known):
        raise UsageError(f"unknown member {unknown[0][:_MAX_NAME]!r}: there are {', '.join(sorted(known))}")
    return read


def _read_variant(place: int, read: Any) -> PostedVariant:
    where = f"variants[{place}]"
    if not isinstance(read, dict) or not set(read) <= _MEMBERS:
        raise UsageError(f"{where} must be an object with only these members: {', '.join(sorted(_MEMBERS))}")
    content, is_source = _read_content(where, read)
    suffixes = SOURCE_SUFFIXES if is_source else CODE_SUFFIXES
    suffix = read.get("suffix")
    if not isinstance(suffix, str) or suffix not in suffixes:
        raise UsageError(f"{where}.suffix must be one of {' '.join(suffixes)}")
    name, flags = read.get("name", ""), read.get("flags", [])
    if not isinstance(name, str) or len(name) > _MAX_NAME or not _is_text(name):
        raise UsageError(f"{where}.name must be a text of at most {_MAX_NAME} characters")
    if not isinstance(flags, list) or len(flags) > _MAX_FLAGS or not all(map(_is_text, flags)):
        raise UsageError(f"{where}.flags must be a list of at most {_MAX_FLAGS} texts")
    if flags and not is_source:
        raise UsageError(f"{where}.flags: a code object is not compiled, so it takes no flags")
    launch = read.get("launch")
    if launch is not None:
        try:
            read_shape(launch)
        except ValueError as error:
            raise UsageError(f"{where}.launch: {error}") from error
    told = None if launch is None else json.dumps(launch, sort_keys=True)
    return PostedVariant(name, content, suffix, tuple(flags), told)


def _read_content(where: str, read: dict[str, Any]) -> tuple[bytes, bool]:
    """Return the bytes of a variant, and whether they are a source."""
    given = [name for name in ("code", "source", "source_base64") if name in read]
    if len(given) != 1 or not isinstance(read[given[0]], str):
        raise UsageError(f"{where} must have exactly one of code, source and source_base64, as a text")
    text = read[given[0]]
    try:
        content = text.encode() if given == ["source"] else base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"{where}.{given[0]}: {error}") from error
    return content, given != ["code"]


def _is_text(value: Any) -> bool:
    """JSON may hold what no system's text does."""
    try:
        return isinstance(value, str) and "\0" not in value and bool(value.encode() or True)
    except ValueError:
        return False
