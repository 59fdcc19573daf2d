"""Fresh values of arrays, for tests."""

from __future__ import annotations

import numpy as np

from kerncap_stages.validate.arguments import Span
from kerncap_stages.validate.perturb.fresh import FreshValues, Variety

TYPES = {"fp64": np.float64, "fp32": np.float32, "fp16": np.float16}


def fresh(values, element_type, freshness, seed=1, ranges=None, variety=Variety.ALL, **options):
    content = values.copy().view(np.uint8).reshape(-1)
    parts = (Span(0, content.size, element_type),)
    (made,) = FreshValues(content, parts, freshness, ranges, seed, **options).make(variety)
    return made.view(values.dtype)


def make_each(values, element_type, freshness, **options):
    """The states of one seed."""
    return {each: fresh(values, element_type, freshness, variety=each, **options) for each in Variety}
