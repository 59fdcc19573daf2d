"""Digests of stored objects, and the typed references by which manifests refer to objects.

A manifest writes every reference to a stored object as ``manifest:<hex>``, ``memory:<hex>``,
``file:<hex>`` or ``kept:<hex>``. So the store can walk any manifest without knowing its kind. The digest of
something that is not stored is written bare, and is never followed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, Self

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

DIGEST_PATTERN = r"^[0-9a-f]{64}$"
SHORT_LENGTH = 12


class _PatternString(str):
    """A string that matches its class's pattern; pydantic checks it and the JSON Schema shows it."""

    __slots__ = ()
    pattern: ClassVar[str]

    def __new__(cls, text: str) -> Self:
        # fullmatch: in Python, unlike in JSON Schema, `$` also matches before a final newline.
        if not re.fullmatch(cls.pattern, text):
            raise ValueError(f"{text!r} is not a {cls.__name__}: {cls.pattern}")
        return super().__new__(cls, text)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: type[Any], _handler: GetCoreSchemaHandler) -> CoreSchema:
        # Only models ask for a schema: most stages use digests without pydantic.
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(cls, core_schema.str_schema(pattern=cls.pattern))


class Digest(_PatternString):
    """SHA-256 of an object's payload: 64 lower-case hexadecimal digits."""

    __slots__ = ()
    pattern = DIGEST_PATTERN

    @property
    def short(self) -> str:
        """The first digits, as messages and pages show them."""
        return self[:SHORT_LENGTH]


class Reference(_PatternString):
    """A typed pointer from a manifest to a stored object."""

    __slots__ = ()
    prefix: ClassVar[str]

    @classmethod
    def to(cls, digest: str) -> Self:
        """Make a reference to the object with that digest."""
        return cls(cls.prefix + digest)

    @property
    def digest(self) -> Digest:
        """The digest of the object that this points at."""
        return Digest(self[len(self.prefix) :])


class ManifestRef(Reference):
    """Points at another manifest."""

    __slots__ = ()
    prefix = "manifest:"
    pattern = r"^manifest:[0-9a-f]{64}$"


class MemoryRef(Reference):
    """Points at the list of the chunks of a memory."""

    __slots__ = ()
    prefix = "memory:"
    pattern = r"^memory:[0-9a-f]{64}$"


class KeptRef(Reference):
    """Points at a memory like ``MemoryRef``. A store may lack it, for it only saves work."""

    __slots__ = ()
    prefix = "kept:"
    pattern = r"^kept:[0-9a-f]{64}$"


class FileRef(Reference):
    """Points at a file that is stored whole, so that its digest is the file's SHA-256."""

    __slots__ = ()
    prefix = "file:"
    pattern = r"^file:[0-9a-f]{64}$"
