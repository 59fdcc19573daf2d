"""kc-show: artifacts as readable pages."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.cli.console import epilog, run
from kerncap_stages.cli.options import (
    ArtifactOrLatestArguments,
    PageJsonOption,
    StoreOption,
    VersionOption,
    stage_app,
)

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
    json: PageJsonOption = False,
    store: StoreOption = None,
    version: VersionOption = False,  # noqa: ARG001
) -> None:
    """Show artifacts as pages: without any, the latest. `kc-store ls` lists them."""
    from kerncap_stages.cli.flows import show as flow

    if about:
        flow.show_about(as_json=json)
    else:
        flow.show_artifacts(store, artifacts, tree=tree, as_json=json)


def main() -> None:
    """Run the executable."""
    run(app)
