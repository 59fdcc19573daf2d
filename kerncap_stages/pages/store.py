"""Pages of ``kc-store``'s reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.pages.parts import list_facts, make_table, wrap_text
from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from kerncap_stages.store.check import CheckReport
    from kerncap_stages.store.collect import GcReport
    from kerncap_stages.store.usage import Usage

_MAX_FAULTS = 50


def make_check_page(report: CheckReport) -> Iterator[RenderableType]:
    """Show how much was read, and each fault with the artifacts that it affects."""
    part = "" if report.checked_objects == report.objects else f"{report.checked_objects:,} of "
    yield wrap_text(
        f"{part}{formats.count(report.objects, 'object')} read, "
        f"{formats.format_size(report.stored_bytes)} in the store: "
        f"{formats.count(len(report.faults), 'fault') if report.faults else 'nothing wrong'}",
        "bold red" if report.faults else "bold green",
    )
    if not report.faults:
        return
    yield make_table(
        ["fault", "=object", "what", "affects"],
        (
            (
                fault.kind,
                fault.what if fault.kind == "stray" else fault.what[:12],
                fault.message.removeprefix(f"object {fault.what}").removeprefix(": ").removeprefix(" "),
                ", ".join(artifact.short for artifact in fault.artifacts) or "nothing listed",
            )
            for fault in report.faults[:_MAX_FAULTS]
        ),
    )
    if report.set_aside:
        yield wrap_text(f"  {formats.count(len(report.set_aside), 'damaged object')} set aside", "dim")
    if len(report.faults) > _MAX_FAULTS:
        yield wrap_text(f"  and {len(report.faults) - _MAX_FAULTS:,} more: see `--json`", "dim")


def make_gc_page(report: GcReport) -> RenderableType:
    """Show what a collection removed, or would remove."""
    removed = (
        f"{formats.count(report.removed_objects, 'object')}, {formats.format_size(report.removed_bytes)}"
    )
    return list_facts(
        [
            ("would remove" if report.dry_run else "removed", removed),
            ("kept", formats.count(report.kept_objects, "object")),
            ("given up", formats.count(report.dead_transactions, "unfinished transaction")),
        ]
    )


def make_usage_page(rows: Sequence[tuple[str, str, Usage]], total: Usage) -> Iterator[RenderableType]:
    """Show the sizes of artifacts, then of the whole store. rows: (digest, kind, usage) of each artifact."""
    yield make_table(
        ["=artifact", "kind", ">objects", ">size", ">on disk", ">shared"],
        [
            *(
                (
                    digest[:12],
                    kind,
                    f"{usage.objects:,}",
                    formats.format_size(usage.logical_bytes),
                    formats.format_size(usage.stored_bytes),
                    formats.format_size(usage.shared_bytes),
                )
                for digest, kind, usage in rows
            ),
            (
                "the store",
                "",
                f"{total.objects:,}",
                formats.format_size(total.logical_bytes),
                formats.format_size(total.stored_bytes),
                "",
            ),
        ],
    )
