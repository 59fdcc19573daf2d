"""kc-show: artifacts as readable pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kerncap_stages.cli.console import epilog, page, require_output, run
from kerncap_stages.cli.inputs import artifact_texts
from kerncap_stages.cli.options import (
    ArtifactOrLatestArguments,
    JsonOption,
    StoreOption,
    VersionOption,
    stage_app,
)

if TYPE_CHECKING:
    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store

_EXAMPLES = """\
kc-show                              the latest artifact; `kc-store ls` lists all
kc-show @capture                     the latest capture
kc-profile -- ./app | kc-show        what a stage just made
kc-show ./isolated/scale             the project in a folder
kc-show --json @capture | jq .launch"""

app = stage_app()


TreeOption = Annotated[bool, typer.Option("--tree", help="Show what the artifact was made from.")]
AboutOption = Annotated[
    bool, typer.Option("--about", help="Show what this installation and this machine have.")
]


@app.command(epilog=epilog(_EXAMPLES))
def show(
    artifacts: ArtifactOrLatestArguments = None,
    tree: TreeOption = False,
    about: AboutOption = False,
    json: JsonOption = False,
    store: StoreOption = None,
    version: VersionOption = False,  # noqa: ARG001
) -> None:
    """Show artifacts as pages: without any, the latest. `kc-store ls` lists them."""
    require_output()
    if about:
        _show_about(json=json)
        return
    from kerncap_stages.project.artifacts import project_of
    from kerncap_stages.store import Store

    for text in artifact_texts(artifacts, otherwise="@"):
        project = project_of(text)
        opened = Store.open(store if project is None else project.store, create=False)
        digest = opened.resolve(text) if project is None else project.reproducer
        if json:
            _print_json(opened, digest)
        elif tree:
            from kerncap_stages.pages.artifact import tree as tree_of

            page().print(tree_of(digest, opened))
        else:
            run_show(opened, digest)


def run_show(store: Store, digest: Digest) -> None:
    """Print the page of an artifact.

    Raises ArtifactError if the manifest cannot be read.
    """
    from kerncap_stages.manifests import load
    from kerncap_stages.pages import render
    from kerncap_stages.pages.artifact import head

    manifest = load(store, digest)
    console = page()
    for section in (*head(digest, manifest, store), *render(manifest)):
        console.print(section)


def _print_json(store: Store, digest: Digest) -> None:
    """Print the stored bytes, so that `kc-show --json X | sha256sum` prints X."""
    from kerncap_stages.manifests import parse

    payload = store.get(digest)
    parse(payload, digest.short)  # refused here as it would be by a stage
    print(payload.decode(), end="")


def _show_about(*, json: bool) -> None:
    from kerncap_stages.pages.installation import describe_installation

    facts = describe_installation()
    if json:
        import json as json_module

        print(json_module.dumps(facts, indent=1))
        return
    from kerncap_stages.pages.about import render

    console = page()
    for section in render(facts):
        console.print(section)


def main() -> None:
    """Run the executable."""
    run(app)
