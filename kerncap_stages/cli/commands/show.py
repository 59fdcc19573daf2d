"""kc-show: show artifacts as readable pages."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import (
    ArtifactOrLatestArguments,
    PageJsonOption,
    StoreOption,
    VersionOption,
    make_stage_app,
)

_EXAMPLES = """\
kc-show                              the latest artifact; `kc-store ls` lists all
kc-show @capture                     the latest capture
kc-profile -- ./app | kc-show        the artifact that a stage just made
kc-show ./isolated/scale             the project in a folder
kc-show --json @capture | jq .launch"""

app = make_stage_app()


TreeOption = Annotated[bool, typer.Option("--tree", help="Show the artifacts that it was made from.")]
AboutOption = Annotated[
    bool, typer.Option("--about", help="Show this installation's parts, and this machine's GPUs and tools.")
]


@app.command(epilog=make_epilog(_EXAMPLES))
def show(
    artifacts: ArtifactOrLatestArguments = None,
    tree: TreeOption = False,
    about: AboutOption = False,
    json: PageJsonOption = False,
    store: StoreOption = None,
    version: VersionOption = False,  # noqa: ARG001
) -> None:
    """Show artifacts as pages. `kc-store ls` lists artifacts."""
    from kerncap_stages.cli.flows import show as flow

    if about:
        flow.show_about(as_json=json)
    else:
        flow.show_artifacts(store, artifacts, tree=tree, as_json=json)


def main() -> None:
    """Run the executable."""
    run(app)
