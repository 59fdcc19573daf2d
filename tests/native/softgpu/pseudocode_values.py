"""Typed bit values of the published pseudo-code, and its arithmetic.

A value is bits with a kind (u, i, f, bf,
b) and a width. Integers narrower than 32 bits are widened before arithmetic, as
in C. Floating-point results are computed in double, which holds sums and products of narrower types well
enough
to be rounded once, and fused ones exactly, as fractions.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from fractions import Fraction

FORMATS = {16: ("<e", "<H"), 32: ("<f", "<I"), 64: ("<d", "<Q")}
MANTISSA = {16: 10, 32: 23, 64: 52}
BIAS = {16: 15, 32: 127, 64: 1023}


def float_of(bits: int, width: int) -> float:
    real, raw = FORMATS[width]
    return struct.unpack(real, struct.pack(raw, bits))[0]


def bits_of(value: float, width: int) -> int:
    """The nearest number of that width, ties to even; overflow gives infinity."""
    if math.isnan(value):
        return {16: 0x7E00, 32: 0x7FC00000, 64: 0x7FF8000000000000}[width]
    real, raw = FORMATS[width]
    try:
        return struct.unpack(raw, struct.pack(real, value))[0]
    except OverflowError:
        return bits_of(math.copysign(math.inf, value), width)


def round_fraction(value: Fraction, width: int) -> float:
    """The nearest number of that width, from an exact one other than zero."""
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    exponent = max(exponent, 1 - BIAS[width])
    unit = Fraction(2) ** (exponent - MANTISSA[width])
    quotient, rest = divmod(magnitude, unit)
    quotient += rest * 2 > unit or (rest * 2 == unit and quotient % 2)
    rounded = quotient * unit
    too_big = rounded >= Fraction(2) ** (BIAS[width] + 1)
    return (math.inf if too_big else float(rounded)) * (-1 if value < 0 else 1)


def fused(a: float, b: float, c: float, width: int) -> float:
    """A multiply-add rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return round_fraction(exact, width) if exact else a * b + c


@dataclass(frozen=True)
class Value:
    """bits is never negative and fits the width."""

    kind: str
    width: int
    bits: int

    @property
    def is_float(self) -> bool:
        return self.kind in ("f", "bf", "power")

    @property
    def number(self) -> int | float:
        if self.kind == "f":
            return float_of(self.bits, self.width)
        if self.kind == "power":
            return self.bits
        if self.kind == "bf":
            return float_of(self.bits << 16, 32)
        if self.kind == "i" and self.bits >> (self.width - 1):
            return self.bits - (1 << self.width)
        return self.bits


def integer(value: int, kind: str = "u", width: int = 32) -> Value:
    return Value(kind, width, value & ((1 << width) - 1))


def real(value: float, width: int) -> Value:
    return Value("f", width, bits_of(value, width))


def reinterpret(value: Value, kind: str, width: int) -> Value:
    """The same bits under another type."""
    return Value(kind, width, value.bits & ((1 << width) - 1))


def cast(value: Value, kind: str, width: int) -> Value:
    """A conversion, as in `64'U(x)`. Bits cast to a float are taken as they are: that is how constants are
    written."""
    if value.kind == "power":
        return value
    if kind == "f" and value.kind == "f" and math.isnan(value.number):
        return nan_of_width(value, width)
    if kind == "f":
        return real(value.number, width) if value.is_float else reinterpret(value, "f", width)
    if value.is_float:
        return integer(int(value.number), kind, width)
    return integer(value.number, kind, width)


def nan_of_width(value: Value, width: int) -> Value:
    """A NaN of another width that is still quiet, or still signaling."""
    sign = value.bits >> (value.width - 1)
    quiet = value.bits >> (MANTISSA[value.width] - 1) & 1
    exponent = ((1 << width) - 1) >> (MANTISSA[width] + 1) << MANTISSA[width]
    return Value("f", width, sign << (width - 1) | exponent | quiet << (MANTISSA[width] - 1) | (1 - quiet))


def promoted(value: Value) -> Value:
    if value.is_float or value.width >= 32:
        return value
    return integer(value.number, "i" if value.kind == "i" else "u", 32)


def arithmetic(op: str, left: Value, right: Value) -> Value:
    """+ - * / ** & | ^ << >> on two values."""
    if left.is_float or right.is_float:
        return float_arithmetic(op, left, right)
    left, right = promoted(left), promoted(right)
    if op in ("<<", ">>"):
        amount = right.number
        shifted = left.number << amount if op == "<<" else left.number >> amount
        return integer(shifted, left.kind, left.width)
    width = max(left.width, right.width)
    kind = "i" if left.kind == right.kind == "i" else "u"
    a, b = left.number, right.number
    operations = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "&": lambda: left.bits & right.bits,
        "|": lambda: left.bits | right.bits, "^": lambda: left.bits ^ right.bits,
    }  # fmt: skip
    if op in ("&", "|", "^"):  # signed operands keep their sign when widened
        a, b = a & ((1 << width) - 1), b & ((1 << width) - 1)
        operations |= {"&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b}
    return integer(operations[op](), kind, width)


def float_arithmetic(op: str, left: Value, right: Value) -> Value:
    width = max(v.width for v in (left, right) if v.is_float)
    a, b = left.number, right.number
    if op == "**":
        assert a == 2.0
        return Value("power", 64, b)
    if "power" in (left.kind, right.kind):
        return scaled(left, right) if right.kind == "power" else scaled(right, left)
    a, b = float(a), float(b)
    if op == "/":
        return real(quotient(a, b), width)
    return real({"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b}[op](), width)


def scaled(value: Value, power: Value) -> Value:
    """A product with 2.0 ** n, which is kept as n: it may be far outside a double's range."""
    number = value.number
    if number == 0 or not math.isfinite(number):
        return real(number, value.width)
    bounded = max(-5000, min(5000, power.bits))
    return real(round_fraction(Fraction(number) * Fraction(2) ** bounded, value.width), value.width)


def quotient(a: float, b: float) -> float:
    if b == 0:
        return (
            math.nan
            if a == 0 or math.isnan(a)
            else math.copysign(math.inf, math.copysign(1, a) * math.copysign(1, b))
        )
    return a / b


def compare(op: str, left: Value, right: Value) -> bool:
    a, b = left.number, right.number
    results = {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
    # Less or greater: unlike !=, false for NaN.
    return a < b or a > b if op == "<>" else results[op]
