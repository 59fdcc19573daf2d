"""The frozen base classes and the small types that all kinds of manifests share."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)

from kerncap_stages.digest import ManifestRef

# JSON has no numbers that are not finite, so these three strings stand for them.
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _parse_float(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _write_float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _check_inside_project(path: str) -> str:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or not path.isprintable() or "\\" in path:
        raise ValueError("must be a plain relative path that stays inside its folder")
    return path


Count = Annotated[int, Field(ge=0, lt=2**63)]
SizeBytes = Annotated[int, Field(ge=0, lt=2**63)]
Address = Annotated[int, Field(ge=0, lt=2**64)]
DurationNs = Annotated[int, Field(ge=0, lt=2**63)]
Dim3 = tuple[Count, Count, Count]
# The packets and calls of both runtimes have 32 bits for these.
Bits32 = Annotated[int, Field(ge=0, lt=2**32)]
DeviceIndex = Annotated[int, Field(ge=0, lt=4096)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
HexBytes = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2})*$")]
UtcTime = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
# A statistic of times, such as a mean: finite, and not always a whole number.
MeanNs = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
# A measured difference may be infinite or not a number, and reading the file must give it back.
AnyFloat = Annotated[
    float,
    BeforeValidator(_parse_float),
    PlainSerializer(_write_float),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": sorted(_NOT_FINITE)}]}),
]
# [offset, length] in bytes, from the base of a region. Not an object, because a write set may hold very many.
ByteRange = tuple[SizeBytes, Annotated[int, Field(gt=0, lt=2**63)]]
RelativePath = Annotated[str, AfterValidator(_check_inside_project)]


def _require_no_added(schema: dict[str, Any], model: type[Frozen]) -> None:
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name not in model.added]


class Frozen(BaseModel):
    """A value that cannot be changed and accepts no unknown keys.

    ``added``: optional members that came without a new version of the manifest. They are left out while they
    are none, so that manifests from before keep their canonical form.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", defer_build=True, json_schema_extra=_require_no_added
    )
    added: ClassVar[frozenset[str]] = frozenset()

    def find_absent(self) -> dict[str, Any]:
        """Return what to exclude of ``added``: members that are none, here and in the values of members."""
        absent: dict[str, Any] = {name: True for name in self.added if getattr(self, name) is None}
        for name in type(self).model_fields:
            values = getattr(self, name)
            if isinstance(values, Frozen) and (found := values.find_absent()):
                absent[name] = found
            if isinstance(values, tuple) and values and isinstance(values[0], Frozen) and values[0].added:
                inner = {number: each.find_absent() for number, each in enumerate(values)}
                absent[name] = {number: found for number, found in inner.items() if found}
        return absent


class RawText(Frozen):
    """Text from the operating system that is not UTF-8, as its bytes."""

    bytes_hex: HexBytes


# Linux allows any bytes in arguments, environment values and paths; nearly always they are UTF-8.
OsText = str | RawText


def to_os_text(value: str) -> OsText:
    """Convert a string from ``sys.argv``, ``os.environ`` or a path for a manifest, without loss."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return RawText(bytes_hex=value.encode(errors="surrogateescape").hex())
    return value


def _escape_undecodable(value: str) -> str:
    return "".join(
        letter
        if not 0xD800 <= (code := ord(letter)) <= 0xDFFF
        else (f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}")
        for letter in value
    )


# Text of ours for people. It may name a path: bytes that are not UTF-8 are shown in it as `\xff`.
Remark = Annotated[str, AfterValidator(_escape_undecodable)]


class Manifest(Frozen):
    """Describes an artifact. ``parents`` are the artifacts that it was made from."""

    kind: str
    schema_version: int
    parents: tuple[ManifestRef, ...] = ()
    made_by: str = Field(min_length=1, description="package and version, e.g. `kerncap-stages 0.1.0`")


def check_paths(paths: list[str]) -> None:
    """Raise ValueError unless files with all of these paths can be in one folder together."""
    refuse(len(set(paths)) < len(paths), "a path is listed twice")
    folders = {path[:i] for path in paths for i, letter in enumerate(path) if letter == "/"}
    refuse(not folders.isdisjoint(paths), "a path is that of a file and of a folder")


def refuse(condition: bool, message: str) -> None:
    """Raise ValueError if the condition holds; pydantic turns it into a validation error."""
    if condition:
        raise ValueError(message)
