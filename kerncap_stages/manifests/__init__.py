"""Manifests: what each stage made, as frozen models with one canonical JSON form.

``from kerncap_stages.manifests import dump, load, load_as`` and the model from its module, such as
``kerncap_stages.manifests.capture.Capture``: models load one kind at a time, which keeps start-up short.
"""

from kerncap_stages.manifests.codec import KINDS, dump, load, load_as, model_of, parse

__all__ = ["KINDS", "dump", "load", "load_as", "model_of", "parse"]
