"""JSON Schemas of the manifests: ``python -m kerncap_stages.manifests.schemas DIR`` writes one file each."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kerncap_stages.manifests.codec import KINDS, find_model


def make_schema(kind: str) -> str:
    """Return the JSON Schema of a kind of manifest, as the text of its file in ``schemas/``."""
    model = find_model(kind)
    schema = model.model_json_schema(mode="serialization")
    version = model.model_fields["schema_version"].default
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kerncap-stages {kind} manifest, version {version}",
    }
    return json.dumps({**schema, **head}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_schemas(folder: Path) -> list[Path]:
    """Write all schemas into a folder; returns the paths of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in KINDS:
        path = folder / f"{kind}.schema.json"
        path.write_text(make_schema(kind), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m kerncap_stages.manifests.schemas DIR")
    for written_path in write_schemas(Path(sys.argv[1])):
        print(written_path)
