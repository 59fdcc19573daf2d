"""Writes the ``tune.toml`` that a user begins with: what this project has to tune, as far as it shows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.building import read_source
from kerncap_stages.tune.making import read_project_recipe
from kerncap_stages.tune.reproducer_script import NAME as SCRIPT
from kerncap_stages.tune.reproducer_script import ReproducerScript
from kerncap_stages.tune.space import NAME

if TYPE_CHECKING:
    from pathlib import Path

    from kerncap_stages.manifests.capture import Capture

_MACRO = re.compile(
    r"^[ \t]*#[ \t]*ifndef[ \t]+(\w+)[ \t]*\r?\n[ \t]*#[ \t]*define[ \t]+\1[ \t]+(\d{1,9})[ \t]*\r?$",
    re.MULTILINE,
)
_OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
_HEAD = """\
# What kc-tune tries. The first value of each list is tried first: write the present one there.
# A list is [8, 16, 32]; a range is {{ min = 1, max = 8 }}, also with step = 2 or factor = 2.

# Only configurations for which all of these hold. Names are those of the parameters below.
constraints = []
"""
_SOURCE = """
# -DNAME=VALUE for the compiler. In {source}, write for each:
#   #ifndef NAME
#   #define NAME 16
#   #endif
[define]
{defines}

# Flags of the compiler; "" is none.
[flags]
# level = ["-O3", "-O2"]
"""
_LAUNCH = """
# Numbers or expressions; what is left out is as captured: grid_x, grid_y, grid_z = {grid} (in blocks),
# block_x, block_y, block_z = {block}, lds = {lds} (bytes of dynamic LDS).
[launch]
# block = ["NAME", 1, 1]
# grid = ["ceil_div(grid_x * block_x, NAME)", "grid_y", "grid_z"]
# lds = "NAME * 4"
"""
_TRITON = """
# Constants and options of {script}. It has:
# {known}
[triton]
{values}

# The grid, if it depends on them. As captured: grid_x, grid_y, grid_z = {grid}
[launch]
# grid = ["ceil_div(grid_x * OLD, NAME)", "grid_y", "grid_z"]
"""


def write_first_file(project: Path, capture: Capture) -> Path:
    """Write ``tune.toml`` into a project. Raises UsageError if there is one, or nothing to tune."""
    recipe = read_project_recipe(project)
    launch = capture.launch
    grid, block = (", ".join(map(str, each)) for each in (launch.grid_blocks, launch.block_work_items))
    if recipe.source.endswith(".py"):
        values = ReproducerScript((project / SCRIPT).read_text()).list_values()
        lines = [f"{name} = {_guess(value)}" for name, value in values.items() if _is_tuned(name, value)]
        known = ", ".join(f"{name} = {value!r}" for name, value in values.items())
        body = _TRITON.format(script=SCRIPT, known=known, values="\n".join(lines), grid=grid)
    else:
        found = {}
        if not recipe.source.endswith(".s"):
            text = read_source(project / recipe.source).decode(errors="replace")
            found = {name: int(value) for name, value in _MACRO.findall(text)}
        lines = [f"{name} = {_guess(value)}" for name, value in found.items()]
        body = _LAUNCH.format(grid=grid, block=block, lds=launch.dynamic_lds_bytes)
        if not recipe.source.endswith(".s"):
            body = (
                _SOURCE.format(source=recipe.source, defines="\n".join(lines) or "# NAME = [16, 8, 32]")
                + body
            )
    path = project / NAME
    try:
        with path.open("x") as file:
            file.write(_HEAD.format() + body)
    except FileExistsError:
        raise UsageError(f"{path} exists", hint="edit it, or move it away") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", hint="copy the project to a place of yours") from error
    return path


def _is_tuned(name: str, value: object) -> bool:
    """Block sizes, and the options that change speed alone."""
    is_size = name.isupper() and type(value) is int and value > 1 and value & (value - 1) == 0
    return name.isidentifier() and (is_size or name in _OPTIONS)


def _guess(value: object) -> str:
    """Return the present value, and its neighbours if it is a number."""
    if type(value) is not int or value < 1:
        return json.dumps([value])
    return json.dumps(list(dict.fromkeys((value, max(1, value // 2), value * 2))))
