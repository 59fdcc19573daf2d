"""Running the installed executables as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.base import Manifest
    from kerncap_stages.store import Store


def run(name: str, *arguments: object, store: Path, piped: str | None = None, **options: Any) -> Any:
    """Run an executable on a store; standard input is empty unless ``piped`` is given."""
    executable = shutil.which(name)
    assert executable is not None, f"{name} is not installed"
    environment = os.environ | {"KERNCAP_STORE": str(store), "COLUMNS": "120"} | options.pop("env", {})
    settings = {"capture_output": True, "text": True, "timeout": 120, "check": False, "env": environment}
    settings |= {"stdin": subprocess.DEVNULL} if piped is None else {"input": piped}
    return subprocess.run([executable, *map(str, arguments)], **(settings | options))


def publish(store: Store, manifest: Manifest) -> str:
    """Publish a manifest as a stage would; what it refers to need not be there."""
    from kerncap_stages.manifests import dump

    with store.transaction() as transaction:
        parents = [parent.digest for parent in manifest.parents]
        return str(transaction.publish(dump(manifest), manifest.kind, parents))
