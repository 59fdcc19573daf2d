"""Summarises an artifact in one line for people.

It reads the manifest as plain JSON, not with its model: a listing of many artifacts must be fast, and one
that is malformed must not hide the others.
"""

from __future__ import annotations

import json
import shlex
from typing import Any, NamedTuple

from kerncap_stages.digest import Digest, ManifestRef
from kerncap_stages.text.kernel_names import shorten

_NAME_WIDTH = (
    72  # names of templates over lambdas have hundreds of letters; the artifact's page shows them in full
)
_NOT_AS_EXPECTED = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


class Summary(NamedTuple):
    """The facts about an artifact that a listing and a tree show."""

    kind: str
    subject: str
    parents: tuple[Digest, ...]


def summarise_manifest(payload: bytes) -> Summary:
    """Summarise a manifest, as far as it can be read."""
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


def _describe_profile(content: Any) -> str:
    if content["program"] is None:
        return f"imported from {content['imported_from']}"
    return shlex.join(text if isinstance(text, str) else "?" for text in content["program"]["command"])


def _describe_capture(content: Any) -> str:
    name = shorten(content["kernel"]["demangled_name"], _NAME_WIDTH)
    return f"{name}, dispatch {content['dispatch']['index_of_kernel']}"


def _describe_source(content: Any) -> str:
    return f"{shorten(content['kernel_name'], _NAME_WIDTH)}, {content['outcome'].replace('_', ' ')}"


def _describe_reproducer(content: Any) -> str:
    return ", ".join(shorten(kernel["name"], _NAME_WIDTH) for kernel in content["kernels"])


def _describe_validation(content: Any) -> str:
    text = f"{'PASS' if content['passed'] else 'FAIL'}, {content['mode'].replace('_', ' ')}"
    options = content.get("options")
    if content["passed"] and content["variant"] is not None and options is not None:
        is_full = options["perturb"] and options["fresh_values"] and not content.get("inputs_kept")
        text += "" if is_full else ", not full"
    return text


def _describe_evaluation(content: Any) -> str:
    outcomes = [variant["outcome"] for variant in content["variants"]]
    name = shorten(content["kernel_name"], _NAME_WIDTH)
    return f"{name}, {outcomes.count('right'):,} of {len(outcomes):,} variants are right"


def _describe_replay(content: Any) -> str:
    which = "baseline" if content["variant"] is None else "variant"
    return f"{which}, {content['outcome'].replace('_', ' ')}"


def _describe_files(content: Any) -> str:
    number = len(content["files"])
    inside = f", {number:,} file{'s' * (number != 1)}" if content["is_folder"] else ""
    return f"{content['name']}{inside}"


_SUBJECTS = {
    "profile": _describe_profile,
    "capture": _describe_capture,
    "source": _describe_source,
    "reproducer": _describe_reproducer,
    "validation": _describe_validation,
    "evaluation": _describe_evaluation,
    "replay": _describe_replay,
    "files": _describe_files,
}
