"""The functions that the published pseudo-code uses without defining them, by their usual meaning."""

from __future__ import annotations

import math

from pseudocode_values import BIAS, MANTISSA, Value, bits_of, fused, integer, quotient, real

INTEGER_LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i16": (-32768, 32767), "u16": (0, 65535),
                  "i32": (-(1 << 31), (1 << 31) - 1), "u32": (0, (1 << 32) - 1)}  # fmt: skip


def saturated(number: float, name: str) -> Value:
    """A float to an integer: truncated, bounded; NaN is zero."""
    least, most = INTEGER_LIMITS[name]
    if math.isnan(number):
        return integer(0, name[0], int(name[1:]))
    bounded = max(float(least), min(float(most), number))
    return integer(int(bounded), name[0], int(name[1:]))


def rounded(number: float) -> float:
    return float(round(number)) if math.isfinite(number) else number


def convert(name: str, value: Value) -> Value | None:
    """f32_to_i32 and its kin."""
    source, _, target = name.partition("_to_")
    if not target or source not in (
        "f16",
        "f32",
        "f64",
        "bf16",
        "i4",
        "i8",
        "i16",
        "i32",
        "u4",
        "u8",
        "u16",
        "u32",
    ):
        return None
    number = value.number
    if target in ("snorm", "unorm"):
        scale, name = (32767.0, "i16") if target == "snorm" else (65535.0, "u16")
        # The product is rounded to f32, then to an integer.
        scaled = rounded(real(number * scale, 32).number)
        return saturated(max(scaled, -32767.0) if target == "snorm" else scaled, name)
    if target in ("f16", "f32", "f64"):
        return real(float(number), int(target[1:]))
    if source[0] in "iu":
        least, most = INTEGER_LIMITS[target]
        return integer(max(least, min(most, number)), target[0], int(target[1:]))
    if target == "u8":  # rounds, where the wider conversions truncate
        number = rounded(number)
    return saturated(number, target)


def exponent(value: Value) -> Value:
    return integer(value.bits >> MANTISSA[value.width] & (2 * BIAS[value.width] + 1), "i")


def mantissa(value: Value) -> Value:
    """In [0.5, 1), as frexp has it."""
    return real(math.frexp(value.number)[0], value.width)


def is_nan(value: Value) -> bool:
    return math.isnan(value.number)


def is_signaling(value: Value) -> bool:
    return is_nan(value) and not value.bits >> (MANTISSA[value.width] - 1) & 1


def floor(number: float) -> float:
    return float(math.floor(number)) if math.isfinite(number) and abs(number) < 2.0**53 else number


def keep_zero_sign(number: float, result: float) -> float:
    return math.copysign(0.0, number) if result == 0 else result


def root(number: float) -> float:
    return math.sqrt(number) if number >= 0 else math.nan


def logarithm(number: float) -> float:
    if math.isnan(number) or number < 0:
        return math.nan
    return -math.inf if number == 0 else math.log2(number)


def power(base: float, exponent: float) -> float:
    assert base == 2.0
    if math.isnan(exponent):
        return math.nan
    return 0.0 if exponent < -2000 else math.inf if exponent >= 1024 else 2.0**exponent


def circular(function, number: float) -> float:
    return function(number) if math.isfinite(number) else math.nan


def sign_extended(value: Value, bits: int) -> Value:
    if bits == 0:
        return integer(0, "i")
    field = value.bits & ((1 << bits) - 1)
    return integer(field - (1 << bits) if field >> (bits - 1) else field, "i", max(32, value.width))


def call(name: str, values: list[Value]) -> Value | None:
    """The value of a function, or None when it is none of these."""
    first = values[0] if values else None
    number = first.number if first is not None else 0.0
    width = first.width if first is not None and first.is_float else 64
    if len(values) == 1 and (converted := convert(name, first)) is not None:
        return converted
    functions = {
        "fma": lambda: real(fused(number, values[1].number, values[2].number, width), width),
        "floor": lambda: real(keep_zero_sign(number, floor(number)), width),
        "trunc": lambda: real(math.copysign(floor(abs(number)), number), width),
        "fract": lambda: real(number - floor(number) if math.isfinite(number) else math.nan, width),
        "abs": lambda: Value(first.kind, width, first.bits & ((1 << (width - 1)) - 1)),
        "sign": lambda: integer(first.bits >> (width - 1), "u", 1),
        "isNAN": lambda: integer(is_nan(first), "u", 1),
        "isSignalNAN": lambda: integer(is_signaling(first), "u", 1),
        "isQuietNAN": lambda: integer(is_nan(first) and not is_signaling(first), "u", 1),
        "isEven": lambda: integer(math.isfinite(number) and number % 2 == 0, "u", 1),
        "cvtToQuietNAN": lambda: Value("f", width, first.bits | 1 << (MANTISSA[width] - 1)),
        "exponent": lambda: exponent(first),
        "mantissa": lambda: mantissa(first),
        "ldexp": lambda: real(math.ldexp(number, values[1].number), width),
        "sqrt": lambda: real(root(number), 64),
        "log2": lambda: real(logarithm(number), 64),
        "pow": lambda: real(power(number, values[1].number), 64),
        "sin": lambda: real(circular(math.sin, number), 64),
        "cos": lambda: real(circular(math.cos, number), 64),
        "signext": lambda: integer(Value("i", first.width, first.bits).number, "i", 64),
        "signext_from_bit": lambda: sign_extended(first, values[1].number),
        "s_ff1_i32_b64": lambda: integer((first.bits & -first.bits).bit_length() - 1, "i"),
    }
    return functions[name]() if name in functions else None


__all__ = ["bits_of", "call", "quotient"]
