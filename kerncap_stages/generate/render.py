"""Makes the files of a project from a capture and its source."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING

from kerncap_stages.code.kernel_facts import find_unmarked_end
from kerncap_stages.code.kernel_names import drop_signature
from kerncap_stages.errors import UsageError
from kerncap_stages.generate.described import describe_capture
from kerncap_stages.generate.kinds import choose_kind
from kerncap_stages.generate.quoting import (
    quote_make_echo,
    quote_make_value,
    quote_markdown,
    read_target_name,
)
from kerncap_stages.generate.templates import make_environment
from kerncap_stages.generate.triton_names import make_name_map
from kerncap_stages.manifests.kernel import Language
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.manifests.source import Outcome
from kerncap_stages.project.folder import STORE
from kerncap_stages.text import formats
from kerncap_stages.text.kernel_names import shorten
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import jinja2

    from kerncap_stages.digest import Digest
    from kerncap_stages.generate.triton_project import TritonProject
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.kernel import Launch
    from kerncap_stages.manifests.source import CompileCommand, Source


_NAME = re.compile(r"\w+", re.ASCII)  # no character that make, a shell or grep interprets
# A recipe line that prints how long the compilation took.
TELL_TIME = "\t@awk 'BEGIN {printf \"compiled in %.1f s\\n\", ('$$(date +%s%N)' - $(BEGAN)) / 1e9}' >&2"
RECORD_BUILD = "record_build.sh"
_CERTAINTY = (False, None, True)  # that an assumed command gives the captured instructions


@dataclass(frozen=True)
class Rendered:
    """A project before it is stored."""

    files: dict[str, bytes]  # contents by path in the project
    copied: dict[str, str]  # path in the project -> digest of a stored source file
    editable: frozenset[str]
    can_recompile: bool
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """One kernel of a project.

    assembly: the text of its instructions, if they are edited.
    triton: the kind of its project, if it is edited as Triton's Python.
    listing: files that show its instructions, if nothing can be edited.
    contents: the bytes of variables of its code object, by the digest of their memory.
    """

    digest: Digest
    capture: Capture
    source: Source | None
    assembly: str | None = None
    triton: TritonProject | None = None
    listing: Mapping[str, bytes] = field(default_factory=dict)
    contents: Mapping[Digest, bytes] = field(default_factory=dict)


def render(parts: Sequence[Part], problems: Sequence[str] = ()) -> Rendered:
    """Make every file of the project except the store. ``problems``: why it is not of a better kind.

    Raises UsageError if several kernels are not from one code object, or not compiled by one command.
    """
    first = parts[0]
    capture, source, rtc = first.capture, first.source, first.capture.kernel.rtc
    found = source if source is not None and source.outcome is Outcome.FOUND else None
    _require_one_unit(parts)
    kind = first.triton or choose_kind(capture)
    files, copied = _describe_captures(parts)
    digests: dict[str, str] = {}
    if found is not None and found.language not in (Language.ASSEMBLY, Language.TRITON):
        for part in parts:
            listed = part.source.files if part.source is not None else ()
            digests.update((to_os_string(file.path), str(file.payload.digest)) for file in listed)
    command = found.compile_command if found and not first.assembly else None
    linked = found.linked_units if found is not None and command is not None else ()
    is_one_kernel = has_one_kernel(parts)
    unedited = found.unedited if found is not None and is_one_kernel else None
    one_kernel = unedited is not None and unedited.one_kernel
    headers = found.precompiled if found is not None and is_one_kernel else None
    build = kind.build(capture, digests, command, linked, one_kernel=one_kernel, precompiled=headers)
    files |= {**build.files, **first.listing}
    can_recompile = first.triton is not None or (command is not None and not build.problem)
    why_not = "" if first.triton else build.problem or _explain_missing(source)
    if first.assembly:
        files[kind.assembly] = first.assembly.encode(errors="surrogateescape")
    values = {
        "target": read_target_name(capture.kernel.code_object.isa),
        "built": kind.built,
        "built_text": f"`{kind.built}`",
        "editable": kind.assembly if first.assembly else kind.editable,
        "can_recompile": can_recompile,
        "assembly": bool(first.assembly),
        "others": [] if is_one_kernel else [_quote_name(part.capture) for part in parts[1:]],
        "cases": [_describe_launch(part.capture.launch) for part in parts[1:]] if is_one_kernel else [],
        "why_not": why_not,
        "edited_line": found.definition.line
        if found is not None and found.definition is not None and command is not None and is_one_kernel
        else None,
        "check": "\n".join(_make_checks(parts)),
        "listing": next(iter(first.listing), ""),
        "whole_unit_because": unedited.whole_unit_because if unedited is not None else None,
        "record": RECORD_BUILD,
        "restored_by": _tell_restoring(parts),
        **build.values,
        **_describe_page(capture, found, build.placed),
        "assumed": command is not None and command.database is None and rtc is None,
        **_describe_assumed(parts, command),
        "compiled_by": rtc and quote_markdown(rtc.compiler),
    }
    if can_recompile or first.assembly:
        files[RECORD_BUILD] = _make_environment().get_template(f"{RECORD_BUILD}.j2").render().encode()
    for name in ("Makefile", "README.md"):
        files[name] = _make_environment().get_template(f"{kind.template}/{name}.j2").render(values).encode()
    missing = [why_not, *problems] if why_not else []
    return Rendered(
        files=files,
        copied={
            **copied,
            kind.code: str(capture.code_digest),
            **{name: digests[original] for original, name in build.placed.items()},
        },
        editable=frozenset(
            {
                *build.placed.values(),
                *({kind.assembly} if first.assembly else ()),
                *(first.triton.modules if first.triton else ()),
            }
        ),
        can_recompile=can_recompile,
        missing=tuple(missing),
    )


def has_one_kernel(parts: Sequence[Part]) -> bool:
    """Whether all captures are of one kernel: they are the cases of one project."""
    return len({(part.capture.kernel.mangled_name, part.capture.code_digest) for part in parts}) == 1


def _describe_captures(parts: Sequence[Part]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Make the files in `capture/`: contents by path, and digests of stored files by path."""
    files: dict[str, bytes] = {}
    copied: dict[str, str] = {}
    for number, part in enumerate(parts, 1):
        folder = "capture" if number == 1 else f"capture/kernel-{number}"
        named, stored = make_name_map(part.capture, folder)
        files |= {**describe_capture(part.capture, folder, part.contents), **named}
        copied |= stored
    return files, copied


def _make_checks(parts: Sequence[Part]) -> Iterator[str]:
    """Yield recipe lines that check for each kernel: a unit compiles even if it does not instantiate it."""
    for mangled in dict.fromkeys(part.capture.kernel.mangled_name for part in parts):
        name = find_unmarked_end(mangled)
        if _NAME.fullmatch(name):
            why = "its unit does not instantiate it, or its name or parameters were changed"
            yield f'\t@grep -q {name} $(NEW) || {{ echo "$@ has no kernel {name}: {why}" >&2; exit 1; }}'
    yield "\t$(RECORD)"  # the template says what that does
    yield TELL_TIME


def _require_one_unit(parts: Sequence[Part]) -> None:
    def read_unit(part: Part) -> tuple[object, ...]:
        command = part.source.compile_command if part.source is not None else None
        built = None if command is None else (command.translation_unit, command.arguments)
        return part.capture.kernel.code_object.payload, built

    for part in parts[1:]:
        if read_unit(part) != read_unit(parts[0]):
            raise UsageError(
                "kernels of one project must be from one code object and one translation unit, but "
                f"{parts[0].capture.kernel.demangled_name} and {part.capture.kernel.demangled_name} are not",
                hint="leave out --together: each kernel gets its own project",
            )


def _tell_restoring(parts: Sequence[Part]) -> str:
    """Tell what writes deleted files of the project again."""
    if len(parts) > 1:
        return "the kc-generate command that made this project"
    wanted = "@capture" if parts[0].source is None else "@source"
    kind = " --assembly" if parts[0].assembly else ""
    return f"`kc-generate --store {STORE} {wanted}{kind} --output .`"


@cache
def _make_environment() -> jinja2.Environment:
    environment = make_environment()
    environment.filters.update(
        make=quote_make_value,
        make_echo=quote_make_echo,
        markdown=quote_markdown,
        lines=partial(make_printable, keep_lines=True),
    )
    return environment


def _explain_missing(source: Source | None) -> str:
    if source is None:
        return "the source was not searched; kc-generate without --assembly searches it"
    if source.outcome is not Outcome.FOUND:
        return source.explanation or f"the source was not found: {source.outcome.value}"
    if source.compile_command is None:
        return source.explanation or "no compile command was found"
    return ""


def _describe_assumed(parts: Sequence[Part], command: CompileCommand | None) -> dict[str, object]:
    """Describe an assumed compile command, and whether it gives each kernel's captured instructions."""
    words = [] if command is None else [to_os_string(word) for word in command.arguments]
    found = [part.source.unedited for part in parts if part.source is not None and part.source.unedited]
    # The least certain kernel decides; the cases of one kernel share its source.
    least = min(found, key=lambda each: _CERTAINTY.index(each.same_instructions), default=None)
    return {
        "assumed_command": quote_markdown(shlex.join(words)),
        "assumed_fits": None if least is None else least.same_instructions,
        "assumed_why": (least.why if least is not None else None) or "kc-locate compiled nothing",
    }


def _describe_page(capture: Capture, found: Source | None, placed: Mapping[str, str]) -> dict[str, object]:
    launch, regions = capture.launch, capture.regions
    device = capture.device
    definition = found.definition if found else None
    place = f"{to_os_string(definition.path)}:{definition.line}" if definition else ""
    program = " ".join(to_os_string(word) for word in capture.program.command)
    return {
        "title": quote_markdown(shorten(drop_signature(capture.kernel.demangled_name), 100)),
        "kernel": _quote_name(capture),
        "program": quote_markdown(program),
        "gpu": quote_markdown(
            f"{device.name} ({device.target})" + (", the software GPU" if device.software else "")
        ),
        **_describe_launch(launch),
        "region_count": len(regions),
        "memory": formats.format_size(sum(region.size_bytes for region in regions)),
        "written": formats.format_size(sum(region.written_size_bytes or 0 for region in regions)),
        "definition": f"`{quote_markdown(place)}`" if place else "",
        "has_deps": len(placed) > 1,
    }


def _quote_name(capture: Capture) -> str:
    return quote_markdown(capture.kernel.demangled_name)


def _describe_launch(launch: Launch) -> dict[str, str]:
    return {
        "grid": formats.format_shape(launch.grid_work_items),
        "block": formats.format_shape(launch.block_work_items),
    }
