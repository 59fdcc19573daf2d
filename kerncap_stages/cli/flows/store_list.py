"""What kc-store's commands do that read or change the list of artifacts and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.cli.console import say
from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.cli.store_option import add_store_option
from kerncap_stages.store import Store
from kerncap_stages.store.folder import can_be_made, choose_path
from kerncap_stages.text.formats import count
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence
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


def name_artifact(store_folder: Path | None, name: str, artifact: str) -> None:
    """Give an artifact a name."""
    store = Store.open(store_folder, create=False)
    store.name(name, store.resolve(artifact))


def remove_name(store_folder: Path | None, name: str) -> None:
    """Remove a name; its artifact stays on the list."""
    Store.open(store_folder, create=False).unname(name)


def remove_artifacts(store_folder: Path | None, artifacts: Sequence[str] | None) -> None:
    """Remove artifacts and their names from the list."""
    store = Store.open(store_folder, create=False)
    # All are resolved first: a wrong name removes nothing, and `@` keeps the meaning that it had before.
    for digest in dict.fromkeys(store.resolve(text) for text in read_artifact_texts(artifacts)):
        store.remove(digest)
        say(f"removed {digest.short}")


def prune_artifacts(store_folder: Path | None, kind: str | None, *, keep_last: int) -> None:
    """Remove all but the latest artifacts of each kind from the list, and print the removed ones."""
    gone = Store.open(store_folder, create=False).prune(keep_last, kind)
    for digest in gone:
        print(digest)
    what = f"{count(len(gone), 'artifact')} removed from the list"
    say(add_store_option(f"{what}; `kc-store gc` frees their space"))
