"""Manifests: what each stage made, as frozen models with one canonical JSON form.

All others read and write manifests by what this package offers, and take the model from its module, such as
``kerncap_stages.manifests.capture.Capture``: models load one kind at a time, which keeps start-up short.

- ``load_as`` (or ``load``, ``parse``) gives the checked model: for whoever works with it.
- ``viewing`` gives the members without importing a model: for a stage that may find its work done.
"""

from kerncap_stages.manifests.codec import (
    KINDS,
    SCHEMA_VERSIONS,
    ReadsObjects,
    canonical,
    dump,
    first_fault,
    load,
    load_as,
    model_of,
    parse,
)
from kerncap_stages.manifests.view import View, viewing

__all__ = [
    "KINDS",
    "SCHEMA_VERSIONS",
    "ReadsObjects",
    "View",
    "canonical",
    "dump",
    "first_fault",
    "load",
    "load_as",
    "model_of",
    "parse",
    "viewing",
]
