"""Running the installed executables as a user would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

from kerncap_stages.digest import FileRef, ManifestRef, MemoryRef

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.digest import Digest
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


def publish(store: Store, manifest: Manifest | bytes, kind: str | None = None) -> str:
    """List a manifest whose objects may be missing, as after a disk lost them: a stage could not."""
    from kerncap_stages.manifests import dump
    from kerncap_stages.store.artifacts import make_list_entry

    payload = manifest if isinstance(manifest, bytes) else dump(manifest)
    content = json.loads(payload)
    parents = [ManifestRef(parent).digest for parent in content["parents"]]
    with store.begin_transaction() as transaction:
        digest = transaction.put_bytes(payload)
        transaction.publish_objects()
        entry = make_list_entry(kind or content["kind"], parents, time.time_ns())
        (store.root / "artifacts" / digest).write_bytes(entry)
    return str(digest)


def publish_capture(store: Store) -> Digest:
    """A capture with a profile as its parent, its memory really there."""
    import manifest_examples as examples

    from kerncap_stages.manifests import dump

    parent = publish(store, examples.profile())
    with store.begin_transaction() as transaction:
        memory = MemoryRef.to(transaction.put_memory(bytes(range(256)) * 4096))
        code_object = FileRef.to(transaction.put_bytes(b"code object"))
        plain = examples.capture()
        region = plain.regions[0].model_copy(
            update={
                "size_bytes": 1 << 20, "pre": memory, "post": memory, "written": (), "written_size_bytes": 0
            }
        )  # fmt: skip
        kernel = plain.kernel.model_copy(
            update={"code_object": plain.kernel.code_object.model_copy(update={"payload": code_object})}
        )
        manifest = examples.capture(
            parents=(ManifestRef.to(parent),), kernel=kernel, regions=(region,), module_variables=(),
            loaded_code_objects=(),
        )  # fmt: skip
        return transaction.publish(dump(manifest), "capture", [manifest.parents[0].digest])
