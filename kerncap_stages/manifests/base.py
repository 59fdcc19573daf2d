"""What every manifest is made of: the frozen base classes and the small types that all kinds share."""

from __future__ import annotations

import math
from typing import Annotated, Any

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

# No canonical number for what is not finite: JSON has none, so these three strings stand in.
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _float_from_text(value: Any) -> Any:
    return _NOT_FINITE.get(value, value) if isinstance(value, str) else value


def _float_to_text(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _inside_project(path: str) -> str:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or not path.isprintable() or "\\" in path:
        raise ValueError("must be a plain relative path that stays inside its folder")
    return path


Count = Annotated[int, Field(ge=0, lt=2**63)]
SizeBytes = Annotated[int, Field(ge=0, lt=2**63)]
Address = Annotated[int, Field(ge=0, lt=2**64)]
DurationNs = Annotated[int, Field(ge=0, lt=2**63)]
Dim3 = tuple[Count, Count, Count]
# Of 32 bits, as the packets and calls of both runtimes have room for.
Bits32 = Annotated[int, Field(ge=0, lt=2**32)]
DeviceIndex = Annotated[int, Field(ge=0, lt=4096)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
HexBytes = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2})*$")]
UtcTime = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
# A statistic of times: finite, and not necessarily a whole number.
MeanNs = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
# A measured difference may be infinite or not a number, and that must survive the file.
AnyFloat = Annotated[
    float,
    BeforeValidator(_float_from_text),
    PlainSerializer(_float_to_text),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": sorted(_NOT_FINITE)}]}),
]
# [offset, length] in bytes, from the base of a region. A pair, not an object: a write set may hold many.
ByteRange = tuple[SizeBytes, Annotated[int, Field(gt=0, lt=2**63)]]
RelativePath = Annotated[str, AfterValidator(_inside_project)]


class Frozen(BaseModel):
    """A value: cannot be changed, and knows all of its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class RawText(Frozen):
    """Text of the operating system that is not UTF-8, as its bytes."""

    bytes_hex: HexBytes


# Arguments, environment values and paths are bytes to Linux; nearly always they are UTF-8.
OsText = str | RawText


def os_text(value: str) -> OsText:
    """Make what ``sys.argv``, ``os.environ`` or a path gave fit for a manifest, without loss."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return RawText(bytes_hex=value.encode(errors="surrogateescape").hex())
    return value


class Manifest(Frozen):
    """What one stage made. ``parents`` are the artifacts that it was made from."""

    kind: str
    schema_version: int
    parents: tuple[ManifestRef, ...] = ()
    made_by: str = Field(min_length=1, description="package and version, e.g. `kerncap-stages 0.1.0`")


def check_paths(paths: list[str]) -> None:
    """Raise ValueError unless all of these can stand in one folder together."""
    refuse(len(set(paths)) < len(paths), "a path is there twice")
    folders = {path[:i] for path in paths for i, letter in enumerate(path) if letter == "/"}
    refuse(not folders.isdisjoint(paths), "a file stands where a folder is needed")


def refuse(condition: bool, message: str) -> None:
    """Raise ValueError, which pydantic turns into a validation error, when the condition holds."""
    if condition:
        raise ValueError(message)
