"""Write the HTML page of a verdict, with pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.manifests import load_as
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.validation import Validation
from kerncap_stages.pages.verdict_report import write_report

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


def write_report_of(store: Store, verdict: Digest, folder: Path, below: str) -> Path:
    """Write the page of a verdict into ``folder``, or into ``below/`` in it; returns the page's path."""
    manifest = load_as(store, verdict, Validation)
    capture = load_as(store, manifest.capture.digest, Capture)
    return write_report(manifest, capture.kernel.demangled_name, folder, below)
