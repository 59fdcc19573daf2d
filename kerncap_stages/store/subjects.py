"""What an artifact is about, in one line for people.

Read from the manifest's plain JSON, not through its model: a listing of many artifacts must be quick, and one
that cannot be read must not hide the others.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple

from kerncap_stages.digest import Digest, ManifestRef
from kerncap_stages.text.kernel_names import shorten

_NAME_WIDTH = (
    72  # names of templates over lambdas have hundreds of letters; the artifact's page has them whole
)
_NOT_AS_EXPECTED = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


class Summary(NamedTuple):
    """What a listing and a tree show of an artifact."""

    kind: str
    subject: str
    parents: tuple[Digest, ...]


def summary_of(payload: bytes) -> Summary:
    """Summarize a manifest, as far as it can be understood."""
    try:
        content = json.loads(payload)
        kind = str(content["kind"])
        parents = tuple(ManifestRef(reference).digest for reference in content["parents"])
    except _NOT_AS_EXPECTED:
        return Summary("?", "not a manifest", ())
    try:
        return Summary(kind, _SUBJECTS[kind](content), parents)
    except _NOT_AS_EXPECTED:
        return Summary(kind, "", parents)


def _profile(content: Any) -> str:
    if content["program"] is None:
        return f"imported from {content['imported_from']}"
    return shlex.join(text if isinstance(text, str) else "?" for text in content["program"]["command"])


def _capture(content: Any) -> str:
    name = shorten(content["kernel"]["demangled_name"], _NAME_WIDTH)
    return f"{name}, dispatch {content['dispatch']['index_of_kernel']}"


def _source(content: Any) -> str:
    return f"{shorten(content['kernel_name'], _NAME_WIDTH)}, {content['outcome'].replace('_', ' ')}"


def _reproducer(content: Any) -> str:
    return ", ".join(shorten(kernel["name"], _NAME_WIDTH) for kernel in content["kernels"])


def _validation(content: Any) -> str:
    return f"{'PASS' if content['passed'] else 'FAIL'}, {content['mode'].replace('_', ' ')}"


def _replay(content: Any) -> str:
    which = "baseline" if content["variant"] is None else "variant"
    return f"{which}, {content['outcome'].replace('_', ' ')}"


def _files(content: Any) -> str:
    number = len(content["files"])
    inside = f", {number:,} file{'s' * (number != 1)}" if content["is_folder"] else ""
    return f"{content['name']}{inside}"


_SUBJECTS = {
    "profile": _profile,
    "capture": _capture,
    "source": _source,
    "reproducer": _reproducer,
    "validation": _validation,
    "replay": _replay,
    "files": _files,
}
