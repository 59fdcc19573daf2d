"""The same root as a container image, for machines that run containers but allow no namespaces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from kerncap_stages.rocm_root import build, enter
from kerncap_stages.rocm_root.recipes import find_recipe

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEMPLATE = """\
# Made by `kc-root containerfile --rocm {rocm}`; a test compares it.
# Build: podman build -t kerncap-rocm-{rocm} -f Containerfile .
#        --build-arg BASE=REGISTRY/NAME:TAG takes the base image from elsewhere
# Use:   podman run --rm -it -v "$PWD:$PWD" -w "$PWD" kerncap-rocm-{rocm} make test
ARG BASE=debian:{suite}-slim
FROM ${{BASE}}
ENV DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8
RUN set -ex; \\
    {script}
# Tells kc-root that it is inside such a root already, so that it runs commands where it is.
RUN echo '{marker}' > {marker_path}
"""


def make_containerfile(rocm: str, layers: Sequence[str]) -> str:
    """Return the text of a Containerfile that installs what the recipe installs."""
    recipe = find_recipe(rocm)
    steps = []
    if recipe.overlay:
        # From the archive that the base image itself uses.
        archive = "$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -n 1)"
        steps.append(f'echo "deb {archive} {recipe.overlay} main" > /etc/apt/sources.list.d/overlay.list')
    steps += build.install_script(recipe, None).splitlines()
    if layers:
        steps += build.install_script(recipe, layers).splitlines()
    return _TEMPLATE.format(
        rocm=rocm, suite=recipe.suite, script="; \\\n    ".join(steps), marker_path=enter.MARKER,
        marker=json.dumps({"rocm": rocm, "layers": sorted(layers)}),
    )  # fmt: skip


def is_inside(rocm: str, layers: Sequence[str]) -> bool:
    """Whether this process already runs inside such a root."""
    if not enter.MARKER.exists():
        return False
    here = json.loads(enter.MARKER.read_text())
    return bool(here["rocm"] == rocm and set(layers) <= set(here["layers"]))
