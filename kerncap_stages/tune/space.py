"""Reads a project's ``tune.toml``: the parameters, their values, the constraints, and the launch.

constraints = ["TILE * TILE <= 1024"]    # expressions over the parameters

[define]                                 # -DTILE=8 and so on, for the compiler
TILE = [8, 16, 32]
UNROLL = { min = 1, max = 8 }            # also with step = 2, or factor = 2

[flags]                                  # flags as the compiler gets them; "" is none
level = ["-O3", "-O2"]

[triton]                                 # constants and options of reproducer.py
num_warps = [4, 8]

[values]                                 # for constraints and the launch only
rows = [1, 2]

[launch]                                 # expressions; what is left out is as captured
block = ["TILE", "TILE", 1]
grid = ["ceil_div(grid_x * block_x, TILE)", "grid_y", 1]
lds = "TILE * TILE * 4"
"""

from __future__ import annotations

import itertools
import json
import math
import re
import shlex
import tomllib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.regular import read_regular_file
from kerncap_stages.replay.variant_shape import MAX_BLOCK_WORK_ITEMS, MAX_WORK_ITEMS
from kerncap_stages.tune.expressions import Expression, read_expression

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    Value = bool | int | float | str

NAME = "tune.toml"
DEFINE, FLAGS, TRITON, VALUES = SECTIONS = ("define", "flags", "triton", "values")
LAUNCH = ("grid", "block", "lds")
# What expressions of a launch may use beside the parameters: the captured launch. The grid is in blocks.
CAPTURED = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "lds")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RANGE = ({"min", "max"}, {"min", "max", "step"}, {"min", "max", "factor"})
_MAX_FILE_BYTES = 1 << 20
_MAX_PARAMETERS = 64
_MAX_VALUES = 4096
_MAX_TRIED = 20_000  # configurations, in search of one that has a launch
_HINT = "`kc-tune PROJECT --init` writes a file to begin with; docs/tune.md describes it"


@dataclass(frozen=True)
class Parameter:
    """section: where its value goes. is_range: its values lie on a scale, at equal distances."""

    name: str
    section: str
    values: tuple[Value, ...]
    is_range: bool = False


@dataclass(frozen=True)
class Configuration:
    """One value for each parameter."""

    values: tuple[tuple[str, Value], ...]

    @property
    def name(self) -> str:
        """For people: ``TILE=8 level=-O2``."""
        return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in self.values)

    def as_dict(self) -> dict[str, Value]:
        """Return the values by the names of the parameters."""
        return dict(self.values)


@dataclass(frozen=True)
class Space:
    """All that is tried. ``launch``: expressions by ``grid``, ``block`` (three each) and ``lds`` (one)."""

    parameters: tuple[Parameter, ...]
    constraints: tuple[Expression, ...]
    launch: dict[str, tuple[Expression, ...]]

    @property
    def size(self) -> int:
        """How many configurations there are, without the constraints."""
        return math.prod(len(each.values) for each in self.parameters)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple(each.name for each in self.parameters)

    def find(self, section: str) -> tuple[Parameter, ...]:
        """Return the parameters whose values go to one place."""
        return tuple(each for each in self.parameters if each.section == section)

    def is_allowed(self, configuration: Configuration) -> bool:
        """Whether a configuration meets all constraints. Raises UsageError if one of them has no value."""
        values = configuration.as_dict()
        return all(each.evaluate(values) for each in self.constraints)

    def list_allowed(self) -> Iterator[Configuration]:
        """Yield the configurations that meet the constraints. The last parameter changes fastest."""
        for values in itertools.product(*(each.values for each in self.parameters)):
            configuration = self.make(values)
            if self.is_allowed(configuration):
                yield configuration

    def make(self, values: tuple[Value, ...]) -> Configuration:
        """Make a configuration of values in the order of the parameters."""
        return Configuration(tuple(zip(self.names, values, strict=True)))

    def choose_flags(self, configuration: Configuration) -> tuple[str, ...]:
        """Return the compiler's flags of a configuration."""
        values = configuration.as_dict()
        defined = tuple(f"-D{each.name}={_as_macro(values[each.name])}" for each in self.find(DEFINE))
        given = tuple(flag for each in self.find(FLAGS) for flag in _split(each.name, str(values[each.name])))
        return defined + given

    def choose_launch(
        self, configuration: Configuration, captured: Mapping[str, int]
    ) -> dict[str, list[int] | int]:
        """Return ``grid``, ``block`` and ``lds`` as far as they are given. ``captured``: by CAPTURED.

        Raises UsageError for what no GPU takes.
        """
        values = {**captured, **configuration.as_dict()}
        chosen: dict[str, list[int] | int] = {}
        for name, expressions in self.launch.items():
            found = [_require_count(each, each.evaluate(values), lds=name == "lds") for each in expressions]
            if name == "block" and math.prod(found) > MAX_BLOCK_WORK_ITEMS:
                raise UsageError(f"a block of {'x'.join(map(str, found))} for {configuration.name}")
            chosen[name] = found[0] if name == "lds" else found
        return chosen

    def require_launch(self, captured: Mapping[str, int]) -> None:
        """Raise UsageError if no configuration has a launch. A larger space than _MAX_TRIED may have one."""
        error: UsageError | None = None
        for configuration in self.list_allowed() if self.size <= _MAX_TRIED else ():
            try:
                self.choose_launch(configuration, captured)
            except UsageError as failed:
                error = error or failed
            else:
                return
        if error is not None:
            raise UsageError(f"no configuration has a launch: {error}", hint=error.hint or _HINT)

    def describe(self) -> str:
        """Return all of it as one text: the same space gives the same."""
        return json.dumps(
            [
                [[each.name, each.section, each.values, each.is_range] for each in self.parameters],
                [each.text for each in self.constraints],
                {name: [each.text for each in expressions] for name, expressions in self.launch.items()},
            ]
        )


def read_space(path: Path) -> Space:
    """Read the file. Raises UsageError, with what is wrong in it."""
    try:
        read = tomllib.loads(read_regular_file(path, _MAX_FILE_BYTES).decode())
    except FileNotFoundError:
        raise UsageError(f"there is no {path}", hint=_HINT) from None
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: {why}", hint=_HINT) from error
    try:
        return _make_space(read)
    except UsageError as error:
        raise UsageError(f"{path}: {error}", hint=error.hint or _HINT) from error


def make_space(defines: Mapping[str, list[Value]]) -> Space:
    """Make a space of ``-D`` values alone."""
    return _make_space({DEFINE: dict(defines)})


def _make_space(read: dict[str, Any]) -> Space:
    unknown = set(read) - {*SECTIONS, "constraints", "launch"}
    if unknown:
        raise UsageError(f"unknown section or key {min(unknown)!r}")
    parameters = [
        _read_parameter(name, section, values)
        for section in SECTIONS
        for name, values in _require_table(section, read.get(section, {})).items()
    ]
    names = [each.name for each in parameters]
    twice = next((name for name in names if names.count(name) > 1 or name in CAPTURED), None)
    if twice is not None:
        raise UsageError(
            f"{twice} names two things: it is also a parameter, or a part of the captured launch"
        )
    if not 0 < len(parameters) <= _MAX_PARAMETERS:
        raise UsageError(f"it has {len(parameters)} parameters: from 1 to {_MAX_PARAMETERS} are possible")
    constraints = read.get("constraints", [])
    if not isinstance(constraints, list) or not all(isinstance(each, str) for each in constraints):
        raise UsageError("constraints must be a list of texts")
    launch = _require_table("launch", read.get("launch", {}))
    return Space(
        tuple(parameters),
        tuple(_read_constraint(each, names) for each in constraints),
        {name: _read_launch(name, given, names) for name, given in launch.items()},
    )


def _read_constraint(text: str, names: Collection[str]) -> Expression:
    constraint = read_expression(text, names)
    if constraint.is_list:
        raise UsageError(
            f"the constraint {text!r} always holds", hint="join conditions by `and`, or list them one by one"
        )
    return constraint


def _require_table(name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise UsageError(f"{name} must be a table: write [{name}] on a line of its own")
    return given


def _read_parameter(name: str, section: str, given: Any) -> Parameter:
    if not name.isidentifier():
        raise UsageError(f"the name of a parameter has letters, digits and _ only, and {name!r} has others")
    is_range = isinstance(given, dict)
    values = _list_range(name, given) if is_range else given
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_VALUES:
        raise UsageError(f"{name}: from 1 to {_MAX_VALUES} values, in brackets, are possible")
    if not all(isinstance(each, bool | int | float | str) for each in values):
        raise UsageError(f"{name}: a value is a number, a text, true or false")
    if any(isinstance(each, float) and not math.isfinite(each) for each in values):
        raise UsageError(f"{name}: a number must be finite")
    control = next((each for each in values if isinstance(each, str) and _CONTROL.search(each)), None)
    if control is not None:
        raise UsageError(
            f"{name}: {control!r} has a control character, which compilers take for something else"
        )
    if len(set(values)) < len(values):
        raise UsageError(f"{name}: a value is given twice; true is 1, and false is 0")
    if section == FLAGS:
        for each in values:
            _split(name, str(each))
    return Parameter(name, section, tuple(values), is_range and "factor" not in given)


def _list_range(name: str, given: dict[str, Any]) -> list[Value]:
    if set(given) not in _RANGE or not all(type(each) is int for each in given.values()):
        raise UsageError(f"{name}: a range is {{ min = 1, max = 8 }}, also with step = 2 or factor = 2")
    first, last, factor = given["min"], given["max"], given.get("factor")
    step = given.get("step", 1)
    if first > last or step < 1 or (factor is not None and (factor < 2 or first < 1)):
        raise UsageError(f"{name}: a range goes up, from 1 on if it has a factor, which is 2 at least")
    if factor is None:
        return list(range(first, last + 1, step)[: _MAX_VALUES + 1])
    values = []
    while first <= last:
        values.append(first)
        first *= factor
    return list(values)


def _read_launch(name: str, given: Any, names: list[str]) -> tuple[Expression, ...]:
    if name not in LAUNCH:
        raise UsageError(f"launch.{name}: a launch has {', '.join(LAUNCH)}")
    parts = [given] if name == "lds" or not isinstance(given, list) else given
    parts = parts if name == "lds" else [*parts, *[1] * (3 - len(parts))]
    if len(parts) > 3 or not all(isinstance(each, str) or type(each) is int for each in parts):
        raise UsageError(f"launch.{name}: up to three numbers or expressions; one for lds")
    expressions = tuple(read_expression(str(each), {*names, *CAPTURED}) for each in parts)
    joined = next((each.text for each in expressions if each.is_list), None)
    if joined is not None:
        raise UsageError(f"launch.{name}: {joined!r} is not one number", hint='block = ["TILE", 8, 1]')
    return expressions


def _require_count(expression: Expression, value: Any, *, lds: bool) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not (0 if lds else 1) <= value <= MAX_WORK_ITEMS:
        raise UsageError(f"{expression.text!r} is {value!r}, and no launch has that")
    return value


def _split(name: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{name}: {text!r}: {error}") from error


def _as_macro(value: Value) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
