"""Runs the published pseudo-code of one instruction for one lane.

Registers are containers of bits: S0, S1, S2, D0, and the masks VCC, EXEC and D0 of comparisons,
which it indexes by lane.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pseudocode_functions as functions
from pseudocode_values import Value, arithmetic, cast, compare, float_of, integer, real, reinterpret

if TYPE_CHECKING:
    from collections.abc import Callable

CONTAINER_BITS = 128
CONSTANTS = {"PI": math.pi, "INF": math.inf, "NAN": math.nan}
MEMBER = re.compile(r"(bf|[uifb])(\d+)")


class BreakLoop(Exception):  # noqa: N818
    """`break`."""


class Return(Exception):  # noqa: N818
    """`return`, out of a lambda."""

    def __init__(self, value: Value) -> None:
        self.value = value


class Machine:
    """lane and ieee are what the code can ask of its surroundings; opcode runs another instruction's code."""

    def __init__(
        self, registers: dict[str, int], lane: int, ieee: bool, opcode: Callable[[str, list[Value]], Value]
    ) -> None:
        self.variables: dict[str, object] = {
            name: Value("b", CONTAINER_BITS, bits) for name, bits in registers.items()
        }
        self.variables["laneId"] = integer(lane)
        self.ieee = ieee
        self.opcode = opcode

    def bits(self, name: str) -> int:
        return self.variables[name].bits

    def run(self, body: list[tuple]) -> None:
        for statement in body:
            getattr(self, f"do_{statement[0]}")(*statement[1:])

    # Statements.

    def do_expression(self, expression: tuple) -> None:
        self.value(expression)

    def do_chain(self, target: tuple, inner: tuple) -> None:
        self.run([inner])
        self.assign(target, self.value(inner[1]))

    def do_set(self, target: tuple, operator: str, expression: tuple) -> None:
        value = self.value(expression)
        if operator != "=":
            old = self.value(target)
            value = cast(arithmetic(operator[0], old, value), old.kind, old.width)
        self.assign(target, value)

    def do_if(self, branches: list, otherwise: list) -> None:
        for condition, body in branches:
            if self.true(condition):
                self.run(body)
                return
        self.run(otherwise)

    def do_for(self, name: str, first: tuple, last: tuple, body: list) -> None:
        for i in range(self.value(first).number, self.value(last).number + 1):
            self.variables[name] = integer(i, "i")
            try:
                self.run(body)
            except BreakLoop:
                return

    def do_break(self) -> None:
        raise BreakLoop

    def do_return(self, expression: tuple) -> None:
        raise Return(self.value(expression))

    def do_declare(self, name: str, kind: str, width: int, is_array: bool) -> None:
        if name == "S":  # the sources as an array
            self.variables[name] = {i: self.variables[f"S{i}"] for i in range(3)}
        else:
            self.variables[name] = {} if is_array else Value(kind, width, 0)

    def do_lambda(self, name: str, parameters: list[str], body: list) -> None:
        self.variables[name] = (parameters, body)

    # Assignment.

    def assign(self, target: tuple, value: Value) -> None:
        if target[0] == "name":
            old = self.variables.get(target[1])
            is_container = isinstance(old, Value) and old.width == CONTAINER_BITS
            self.variables[target[1]] = reinterpret(value, "b", CONTAINER_BITS) if is_container else value
        elif target[0] == "concat":
            for part in reversed(target[1]):
                width = int(MEMBER.fullmatch(part[2])[2])
                self.assign(part, integer(value.bits, "u", width))
                value = Value("b", max(1, value.width - width), value.bits >> width)
        elif target[0] == "index" and isinstance(self.variables.get(target[1][-1]), dict):
            self.variables[target[1][1]][self.value(target[2]).number] = value
        else:
            self.assign_part(target, value)

    def assign_part(self, target: tuple, value: Value) -> None:
        name, offset, width, kind = self.place(target)
        if kind is None:
            kind = "b"
        converted = value
        if kind in ("f", "bf") and value.is_float and (value.kind, value.width) != (kind, width):
            converted = cast(value, kind, width)
        elif kind in ("u", "i") and not value.is_float:
            converted = integer(value.number, kind, width)
        mask = ((1 << width) - 1) << offset
        old = self.variables.get(name)
        if not isinstance(old, Value) or (offset == 0 and old.width != CONTAINER_BITS and width >= old.width):
            old = Value(kind, width + offset, 0)
        bits = old.bits & ~mask | converted.bits << offset & mask
        self.variables[name] = Value(old.kind, max(old.width, width + offset), bits)

    def place(self, target: tuple) -> tuple[str, int, int, str | None]:
        """Name, first bit, width and kind of a part of a register."""
        if target[0] == "name":
            return target[1], 0, CONTAINER_BITS, None
        name, offset, width, kind = self.place(target[1])
        if target[0] == "member":
            match = MEMBER.fullmatch(target[2])
            return name, offset, min(width, int(match[2])), match[1]
        first = self.value(target[2]).number
        if target[0] == "index":
            return name, offset + first, 1, "u"
        last = self.value(target[3]).number
        return name, offset + min(first, last), abs(first - last) + 1, kind

    # Expressions.

    def true(self, expression: tuple) -> bool:
        return self.value(expression).number != 0

    def value(self, node: tuple) -> Value:
        return getattr(self, f"get_{node[0]}")(*node[1:])

    def get_literal(self, text: str) -> Value:
        width, digits = 32, text
        if "'" in text:
            size, digits = text.split("'")
            width = int(size)
        if "." in digits:
            return real(
                float(digits.rstrip("F")), width if "'" in text else 32 if digits.endswith("F") else 64
            )
        if digits.rstrip("U").endswith("LL") or "LL" in digits:
            width = 64
        number = int(digits.rstrip("UL"), 0)
        if number >> width:
            width = 64
        return integer(number, "u" if "U" in digits or digits.startswith("0x") else "i", width)

    def get_name(self, name: str) -> Value:
        if name in CONSTANTS:
            return real(CONSTANTS[name], 64)
        return self.variables[name]

    def get_member(self, base: tuple, name: str) -> Value:
        if base == ("name", "WAVE_MODE"):
            return integer(self.ieee, "u", 1)
        kind, width = MEMBER.fullmatch(name).groups()
        if base[0] == "name" and base[1] in CONSTANTS:
            return real(CONSTANTS[base[1]], int(width))
        value = self.value(base)
        if name in ("i24", "u24"):
            return integer(value.bits & 0xFFFFFF, kind, 24)
        return reinterpret(value, kind, int(width))

    def get_slice(self, base: tuple, high: tuple, low: tuple) -> Value:
        value, first, last = self.value(base), self.value(high).number, self.value(low).number
        width = abs(first - last) + 1
        bits = value.bits >> min(first, last) & ((1 << width) - 1)
        if first < last:
            bits = int(f"{bits:0{width}b}"[::-1], 2)
        return Value("u" if value.kind in ("u", "i") else "b", width, bits)

    def get_index(self, base: tuple, index: tuple) -> Value:
        at = self.value(index).number
        held = self.variables.get(base[1]) if base[0] == "name" else None
        if isinstance(held, dict):
            return held[at]
        return Value("u", 1, self.value(base).bits >> at & 1)

    def get_cast(self, kind: str, width: int, expression: tuple) -> Value:
        return cast(self.value(expression), kind, width)

    def get_choose(self, condition: tuple, yes: tuple, no: tuple) -> Value:
        return self.value(yes if self.true(condition) else no)

    def get_concat(self, parts: list[tuple]) -> Value:
        bits = width = 0
        for part in parts:
            value = self.value(part)
            bits, width = bits << value.width | value.bits, width + value.width
        return Value("b", width, bits)

    def get_unary(self, operator: str, operand: tuple) -> Value:
        value = self.value(operand)
        if operator == "-":
            if value.is_float:
                return Value(value.kind, value.width, value.bits ^ 1 << (value.width - 1))
            return integer(-value.number, value.kind, value.width)
        if operator == "!":
            return integer(value.number == 0, "u", 1)
        if operator == "~":
            return Value(value.kind, value.width, ~value.bits & ((1 << value.width) - 1))
        return value

    def get_binary(self, operator: str, left: tuple, right: tuple) -> Value:
        if operator in ("&&", "||"):
            result = (
                self.true(left) and self.true(right)
                if operator == "&&"
                else self.true(left) or self.true(right)
            )
            return integer(result, "u", 1)
        a, b = self.value(left), self.value(right)
        if operator in ("==", "!=", "<>", "<", "<=", ">", ">="):
            return integer(compare(operator, a, b), "u", 1)
        return arithmetic(operator, a, b)

    def get_call(self, name: str, arguments: list[tuple]) -> Value:
        values = [self.value(argument) for argument in arguments]
        held = self.variables.get(name)
        if isinstance(held, tuple):
            return self.apply(held, values)
        if name.startswith("v_"):
            return self.opcode(name, values)
        result = functions.call(name, values)
        if result is None:
            raise NotImplementedError(name)
        return result

    def apply(self, function: tuple, values: list[Value]) -> Value:
        parameters, body = function
        saved = dict(self.variables)
        self.variables.update(zip(parameters, values, strict=True))
        try:
            self.run(body)
        except Return as result:
            return result.value
        finally:
            self.variables = saved
        raise NotImplementedError("a lambda without result")


__all__ = ["Machine", "float_of"]
