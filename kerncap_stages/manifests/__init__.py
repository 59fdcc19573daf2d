"""Manifests: what each stage made, as frozen models with one canonical JSON form.

Other packages import the functions from here, and each model from its own module, such as
``kerncap_stages.manifests.capture.Capture``. A stage that imports only the models it needs starts faster.

- ``load_as`` (or ``load``, ``parse``) returns the model, checked.
- ``open_view`` returns the members without importing a model, for a stage that may find its result in
  the store.
"""

from kerncap_stages.manifests.codec import (
    KINDS,
    SCHEMA_VERSIONS,
    ReadsObjects,
    describe_first_fault,
    dump,
    find_model,
    load,
    load_as,
    parse,
    to_canonical,
)
from kerncap_stages.manifests.view import View, open_view

__all__ = [
    "KINDS",
    "SCHEMA_VERSIONS",
    "ReadsObjects",
    "View",
    "describe_first_fault",
    "dump",
    "find_model",
    "load",
    "load_as",
    "open_view",
    "parse",
    "to_canonical",
]
