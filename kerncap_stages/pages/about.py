"""The page of ``kc-show --about``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerncap_stages.pages.parts import list_facts, make_heading, make_table, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType


def render(about: dict[str, Any]) -> Iterator[RenderableType]:
    """Show the versions, the parts that were built, and the machine's GPUs and tools."""
    libraries = ", ".join(f"{name} {number or 'missing'}" for name, number in about["libraries"].items())
    yield make_heading(f"kerncap-stages {about['kerncap_stages']}")
    yield list_facts(
        [
            ("Python", f"{about['python']}, {about['executable']}"),
            ("system", about["system"]),
            ("installed in", about["installed_in"]),
            ("libraries", libraries),
            ("native code", about["native_version"] or "missing"),
            ("compiled by", about["compiler"]),
        ]
    )
    yield make_heading("Native parts")
    rows = ((part["name"], part["purpose"], _describe_state(part)) for part in about["native_parts"])
    yield make_table(["part", "for", "built"], rows)
    yield make_heading("This machine")
    gpus = ((gpu["name"], gpu["architecture"], gpu["driver"]) for gpu in about["gpus"])
    yield (
        make_table(["GPU", "architecture", "driver"], gpus)
        if about["gpus"]
        else note("no driver lists a GPU")
    )
    tools = ((tool["name"], tool["purpose"], tool["path"] or "not found") for tool in about["tools"])
    yield make_table(["tool", "for", "found"], tools)


def _describe_state(part: dict[str, Any]) -> str:
    if not part["built"]:
        return f"no: {part['left_out_reason']} (it needs {part['needs']})"
    if part["missing_files"]:
        return f"yes, but {', '.join(part['missing_files'])} is missing: install again"
    return "yes"
