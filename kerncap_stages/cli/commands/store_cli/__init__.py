"""kc-store: keep the store whole, small and in order; put files in and take them out."""

from __future__ import annotations

from kerncap_stages.cli.commands.store_cli import transfer, upkeep
from kerncap_stages.cli.console import make_epilog, run
from kerncap_stages.cli.options import VersionOption, make_stage_app

app = make_stage_app("""Check, list, name and clean up what the store holds; put files in, take them out.

Every command takes `--store DIR` after its name. The default is KERNCAP_STORE,
else a folder in the user's data folder.""")


@app.callback(epilog=make_epilog("kc-store check\nkc-store ls --kind capture\nkc-store prune --keep-last 5"))
def kc_store(version: VersionOption = False) -> None:
    """Check, list, name and clean up what the store holds; put files in, take them out."""


app.add_typer(upkeep.app)
app.add_typer(transfer.app)


def main() -> None:
    """Run the executable."""
    run(app)
