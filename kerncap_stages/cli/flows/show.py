"""What kc-show does: print artifacts as pages or as JSON, or describe this installation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kerncap_stages.cli.console import open_page, require_output
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.manifests import load, parse
from kerncap_stages.pages import render
from kerncap_stages.pages.artifact import make_head
from kerncap_stages.pages.artifact import make_tree as tree_of
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kerncap_stages.digest import Digest


def show_artifacts(
    store_folder: Path | None, artifacts: Sequence[str] | None, *, tree: bool, as_json: bool
) -> None:
    """Print each artifact, or a project's: its page, its parents as a tree, or its bytes."""
    require_output()
    for text in read_artifact_texts(artifacts, otherwise="@"):
        project = find_project(text)
        store = Store.open(store_folder if project is None else project.store, create=False)
        digest = store.resolve(text) if project is None else project.reproducer
        if as_json:
            _print_json(store, digest)
        elif tree:
            open_page().print(tree_of(digest, store))
        else:
            show_page(store, digest)


def show_page(store: Store, digest: Digest) -> None:
    """Print the page of an artifact.

    Raises ArtifactError if the manifest cannot be read.
    """
    manifest = load(store, digest)
    console = open_page()
    for section in (*make_head(digest, manifest, store), *render(manifest)):
        console.print(section)


def _print_json(store: Store, digest: Digest) -> None:
    """Print the stored bytes, so that `kc-show --json X | sha256sum` prints X."""
    payload = store.get(digest)
    parse(payload, digest.short)  # refuse what a stage would refuse
    print(payload.decode(), end="")


def show_about(*, as_json: bool) -> None:
    """Print this installation's parts, and this machine's GPUs and tools."""
    # A page of an artifact needs neither.
    from kerncap_stages.pages import about
    from kerncap_stages.pages.installation import describe_installation

    require_output()
    facts = describe_installation()
    if as_json:
        print(json.dumps(facts, indent=1))
        return
    console = open_page()
    for section in about.render(facts):
        console.print(section)
