"""Options that commands of kc-store share."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.errors import UsageError


def _check_kind(value: str | None) -> str | None:
    # Only --kind needs the names of the kinds, not --help.
    from kerncap_stages.manifests import KINDS

    if value is not None and value not in KINDS:
        raise UsageError(f"--kind {value}: there is no such kind", hint=f"one of {', '.join(KINDS)}")
    return value


def _complete_kind(incomplete: str) -> list[str]:
    # Only --kind needs the names of the kinds, not --help.
    from kerncap_stages.manifests import KINDS

    return [kind for kind in KINDS if kind.startswith(incomplete)]


KindOption = Annotated[
    str | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        callback=_check_kind,
        autocompletion=_complete_kind,
        help="Only artifacts of this kind: profile, capture, source, reproducer, validation, replay, files.",
        show_default=False,
    ),
]
ReportAsJson = Annotated[bool, typer.Option("--json", help="Print plain JSON instead of a page.")]
