"""What kc-validate is given: whether it is there, and whether it is of the captures that were asked for."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from kerncap_stages.cli.artifacts import find_captures, find_held_out_capture
from kerncap_stages.errors import ArtifactError, KerncapError, Refused, UsageError
from kerncap_stages.store.artifacts import is_digest
from kerncap_stages.text.terminal import make_printable
from kerncap_stages.validate.precision.file import read_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.digest import Digest


def refuse_contradictions(
    variant: Path | None, seed: int | None, *, baseline: bool, quick: bool, fresh_values: bool
) -> None:
    """Raise UsageError if two options contradict each other."""
    if baseline and variant is not None:
        raise UsageError(
            f"--baseline checks the captured kernel itself, but --variant {variant} names another one",
            hint="leave one of them out",
        )
    if seed is not None and (quick or not fresh_values):
        without = "--quick" if quick else "--captured-values"
        raise UsageError(f"--seed is of fresh values, which {without} leaves out", hint="leave out one")


def require_inputs(
    store_folder: Path | None,
    artifacts: Sequence[str] | None,
    variant: Path | None,
    reference: Path | None,
    report: Path | None,
    expected: Sequence[str],
    held_out: Sequence[str],
) -> None:
    """Raise an error that names all inputs that are missing or cannot be used.

    expected: of --expect-capture.
    """
    problems: list[KerncapError] = []

    @contextmanager
    def collecting() -> Iterator[None]:
        try:
            yield
        except (UsageError, ArtifactError) as error:
            problems.append(error)

    known: list[Digest] = []
    for text in artifacts or ():
        if text.strip():  # an empty one is told where artifacts are read
            with collecting():
                known += find_captures(store_folder, text)[1]
    for text in expected:
        with collecting():
            _require_digest(text, known)
    for text in held_out:
        with collecting():
            find_held_out_capture(store_folder, text)
    if variant is not None and not variant.is_file():
        hint = "make it with `make recompile`"
        problems.append(UsageError(f"no such code object: {variant}", hint=hint))
    if reference is not None:
        with collecting():
            read_reference(reference)
    if report is not None and report.exists() and not report.is_dir():
        hint = "give --report a new or an empty folder"
        problems.append(UsageError(f"{report} is not a folder", hint=hint))
    if len(problems) == 1:
        raise problems[0]
    if problems:
        lines = (f"- {each}" + (f"; next: {each.hint}" if each.hint else "") for each in problems)
        raise type(problems[0])(f"{len(problems)} inputs cannot be used\n" + "\n".join(lines))


def _require_digest(text: str, known: Sequence[Digest]) -> None:
    if is_digest(text):
        return
    whole = [each for each in known if text and each.startswith(text.lower())]
    hint = "kc-capture prints it; `kc-store ls --kind capture` lists them"
    if whole:
        hint = f"the capture that begins so is {whole[0]}"
    raise UsageError(
        f"--expect-capture {make_printable(text)}: not a digest of 64 hexadecimal digits", hint=hint
    )


def require_captures(text: str, captures: Sequence[Digest], expected: Sequence[str]) -> None:
    """Refuse a verdict on another capture: who edits a project can edit all of it."""
    other = [capture for capture in captures if capture not in expected]
    if not expected or not other:
        return
    name = make_printable(text)
    words = " ".join(f"--expect-capture {capture}" for capture in other)
    verb = "give" if len(other) == len(captures) else "add"  # the project has expected captures, too
    raise Refused(
        f"{name} is of capture {', '.join(other)}, which --expect-capture does not name; it names "
        f"{', '.join(expected)}",
        hint=f"if {name} is what you want to judge, {verb} {words}; else make a project of "
        f"the expected capture: `kc-generate {expected[0][:12]} --output FOLDER`",
    )
