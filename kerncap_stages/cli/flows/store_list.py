"""What `kc-store ls` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.console import say
from kerncap_stages.store import Store
from kerncap_stages.store.folder import can_be_made, choose_path
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from pathlib import Path


def list_artifacts(store_folder: Path | None, kind: str | None, *, quiet: bool, as_json: bool) -> None:
    """Print artifacts, newest first. A store that does not exist yet has none.

    quiet: print only their digests.
    """
    root = (store_folder or choose_path()).expanduser().absolute()
    if can_be_made(root):
        if as_json:
            print("[]")
        else:
            say(
                f"no artifacts yet: there is no store in {make_printable(str(root))}; "
                "the first stage makes it, for example `kc-profile -- ./app`"
            )
        return
    store = Store.open(store_folder, create=False)
    entries = store.list_artifacts(kind)
    if quiet:
        for entry in entries:
            print(entry.digest)
    elif entries or as_json:
        # The table's modules are not needed for digests alone.
        from kerncap_stages.cli.flows.store_upkeep import show_artifacts

        show_artifacts(store, entries, as_json=as_json)
    else:
        say(f"no artifacts{f' of kind {kind}' if kind else ''} in {store.root}")
