"""Expressions over parameters, such as ``TILE * TILE <= 1024``: constraints, and shapes of launches.

They are Python's, but only what is listed below is carried out. None of it calls anything, reads a member of
anything, or takes long: a project, with its ``tune.toml``, may come from anybody.
"""

from __future__ import annotations

import ast
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap_stages.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_MAX_LENGTH = 1000
_MAX_SHIFT = 64
_HINT = 'for example "TILE * TILE <= 1024", or "ceil_div(grid_x * block_x, BLOCK)"'


def _ceil_div(one: int, other: int) -> int:
    return -(-one // other)


def _shift(one: int, other: int) -> int:
    if not 0 <= other <= _MAX_SHIFT:
        raise ValueError(f"a shift by {other}")
    return one << other


_FUNCTIONS: dict[str, Callable[..., Any]] = {"abs": abs, "ceil_div": _ceil_div, "max": max, "min": min}
_VALUES = {"abs": (1, 1), "ceil_div": (2, 2), "max": (2, _MAX_LENGTH), "min": (2, _MAX_LENGTH)}  # least, most
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: _shift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}


@dataclass(frozen=True)
class Expression:
    """An expression that was read."""

    text: str
    body: ast.expr

    @property
    def is_list(self) -> bool:
        """Whether it is a tuple, a list or a text: as a condition that would always hold."""
        is_text = isinstance(self.body, ast.Constant) and isinstance(self.body.value, str)
        return is_text or isinstance(self.body, (ast.Tuple, ast.List))

    def evaluate(self, values: Mapping[str, object]) -> Any:
        """Return its value. Raises UsageError if it has none, as where it divides by zero."""
        try:
            return _evaluate(self.body, values)
        except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
            given = ", ".join(f"{name} = {values[name]!r}" for name in sorted(_find_names(self.body)))
            where = f" for {given}" if given else ""
            raise UsageError(f"{self.text!r} has no value{where}: {error}", hint=_HINT) from error


def read_expression(text: str, names: Collection[str]) -> Expression:
    """Read an expression. ``names``: those that it may use.

    Raises UsageError if it is not an expression, or does what expressions may not do.
    """
    if len(text) > _MAX_LENGTH:
        raise UsageError(
            f"an expression of {len(text)} characters: at most {_MAX_LENGTH} are read", hint=_HINT
        )
    try:
        body = ast.parse(text.strip(), mode="eval").body
        _check(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.msg if isinstance(error, SyntaxError) else error
        raise UsageError(f"{text!r} is not an expression: {why}", hint=_HINT) from error
    unknown = sorted(_find_names(body) - set(names))
    if unknown:
        raise UsageError(
            f"{text!r} uses {unknown[0]}, which is not a parameter",
            hint="the names here are " + ", ".join(sorted(names)),
        )
    return Expression(text, body)


def _check(node: ast.expr) -> None:
    """Raise ValueError for all that ``_evaluate`` does not know."""
    match node:
        case ast.Constant(value=float() as number) if not math.isfinite(number):
            raise ValueError(f"{ast.unparse(node)} is too large")
        case ast.Constant(value=int() | float() | str()) | ast.Name():
            return
        case ast.BinOp(op=each) if type(each) in _BINARY:
            parts = [node.left, node.right]
        case ast.UnaryOp(op=unary) if type(unary) in _UNARY:
            parts = [node.operand]
        case ast.BoolOp():
            parts = node.values
        case ast.Compare() if all(type(each) in _COMPARED for each in node.ops):
            parts = [node.left, *node.comparators]
        case ast.IfExp():
            parts = [node.test, node.body, node.orelse]
        case ast.Tuple() | ast.List():
            parts = node.elts
        case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS:
            parts = node.args
            least, most = _VALUES[name]
            if not least <= len(parts) <= most:
                wanted = f"{least}" if least == most else f"{least} or more"
                raise ValueError(f"{name} takes {wanted} values, not {len(parts)}")
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not possible here")
    for part in parts:
        _check(part)


def _find_names(body: ast.expr) -> set[str]:
    called = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(body) if isinstance(node, ast.Name) and id(node) not in called}


def _evaluate(node: ast.expr, values: Mapping[str, object]) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name():
            return values[node.id]
        case ast.BinOp():
            one, other = (_require_number(_evaluate(each, values)) for each in (node.left, node.right))
            return _BINARY[type(node.op)](one, other)
        case ast.UnaryOp():
            return _UNARY[type(node.op)](_evaluate(node.operand, values))
        case ast.BoolOp():
            found: Any = None
            for each in node.values:
                found = _evaluate(each, values)
                if bool(found) is isinstance(node.op, ast.Or):
                    break
            return found
        case ast.Compare():
            return _compare(node, values)
        case ast.IfExp():
            return _evaluate(node.body if _evaluate(node.test, values) else node.orelse, values)
        case ast.Tuple() | ast.List():
            return tuple(_evaluate(each, values) for each in node.elts)
        case ast.Call(func=ast.Name(id=name)):
            return _FUNCTIONS[name](*(_require_number(_evaluate(each, values)) for each in node.args))
    raise TypeError(f"{ast.unparse(node)!r} was not checked")


def _compare(node: ast.Compare, values: Mapping[str, object]) -> bool:
    one = _evaluate(node.left, values)
    for kind, each in zip(node.ops, node.comparators, strict=True):
        other = _evaluate(each, values)
        if not _COMPARED[type(kind)](one, other):
            return False
        one = other
    return True


def _require_number(value: Any) -> Any:
    """Texts and lists can be multiplied, too, to any size."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number")
    return value
