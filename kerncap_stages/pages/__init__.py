"""Manifests as readable pages, made with rich. Imported only when a page is shown."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from kerncap_stages.manifests.base import Manifest


def render(manifest: Manifest) -> Iterable[RenderableType]:
    """Return the sections of a manifest's page. Each kind has a module of its own here."""
    sections: Iterable[RenderableType] = import_module(f"{__name__}.{manifest.kind}").render(manifest)
    return sections
