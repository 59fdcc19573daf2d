"""Decides which kernels are captured: matches patterns with mangled and demangled names."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kerncap_stages.collect.protocol import LaunchShape, Match, Rule, Selected, SelectedFlag
from kerncap_stages.collect.ranking import UNLISTED
from kerncap_stages.errors import Refused, UsageError
from kerncap_stages.manifests.capture import NameMatch, Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerncap_stages.manifests.base import Dim3

_CLOSE_NAMES = 5
_MATCHES_IN_A_MESSAGE = 4000  # a match has 8 bytes


@dataclass(frozen=True)
class KernelRule:
    """One kernel, or several with similar names, that the user wants to capture."""

    selection: Selection
    _regex: re.Pattern[str] | None = field(default=None, repr=False)

    @classmethod
    def from_selection(cls, selection: Selection) -> KernelRule:
        """Make the rule for a selection.

        Raises UsageError if its pattern is not a regular expression, Refused for kernels without a name.
        """
        if selection.pattern == UNLISTED:
            raise Refused(
                "kernels that no loaded code object lists cannot be captured: there is no code to replay",
                hint="choose another kernel of the profile with `--rank` or `--kernel`",
            )
        if selection.match is not NameMatch.REGEX:
            return cls(selection)
        try:
            return cls(selection, re.compile(selection.pattern or ""))
        except re.error as error:
            raise UsageError(
                f"not a regular expression: {selection.pattern}: {error}",
                hint="`--regex` takes Python's syntax; without it, NAME is a part of the kernel's name",
            ) from error

    def wants(self, mangled: str, demangled: str) -> bool:
        """Whether this rule matches a kernel with these names."""
        pattern = self.selection.pattern or ""
        match self.selection.match:
            case NameMatch.ANY:
                return True
            case NameMatch.SUBSTRING:
                return pattern in demangled or pattern == mangled
            case NameMatch.EXACT:
                return pattern in {demangled, strip_parameters(demangled)}
            case NameMatch.MANGLED:
                return pattern.removesuffix(".kd") == mangled
            case NameMatch.REGEX:
                return self._regex is not None and self._regex.search(demangled) is not None

    def describe_selection(self, grid_blocks: Dim3, block_work_items: Dim3) -> Selection:
        """Return the selection as the capture of one dispatch records it: of its cases, only this one."""
        shape = (grid_blocks, block_work_items)
        own = [each for each in self.selection.cases if (each.grid_blocks, each.block_work_items) == shape]
        return self.selection.model_copy(update={"cases": tuple(own)})

    @property
    def rule(self) -> Rule:
        """The part of the rule that the capture library applies."""
        wanted = self.selection
        return Rule(
            first=wanted.dispatch,
            every=wanted.every,
            count=wanted.count,
            grid_blocks=wanted.grid_blocks or (0, 0, 0),
            block_work_items=wanted.block_work_items or (0, 0, 0),
            cases=int(wanted.by_case),
            shapes=tuple(LaunchShape(case.grid_blocks, case.block_work_items) for case in wanted.cases),
        )


def strip_parameters(demangled: str) -> str:
    """Remove the parameter list and the return type ``void`` from a demangled name."""
    depth = 0
    for at in range(len(demangled) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(demangled[at], 0)
        if depth == 0 and demangled[at] == "(":
            return demangled[:at].removeprefix("void ")
        if depth == 0 and demangled[at] != ")" and not demangled.endswith(")"):
            break
    return demangled


def find_first_rule(rules: Iterable[KernelRule], mangled: str, demangled: str) -> int | None:
    """Return the index of the first rule that matches a kernel, if one does."""
    for index, rule in enumerate(rules):
        if rule.wants(mangled, demangled):
            return index
    return None


def make_answers(module: int, want_code: bool, matches: Sequence[tuple[int, int]]) -> Iterator[Selected]:
    """Yield the messages that say which kernels of a module are wanted, as (kernel, rule)."""
    step = _MATCHES_IN_A_MESSAGE
    parts = [matches[at : at + step] for at in range(0, len(matches), step)] or [()]
    code = SelectedFlag.WANT_CODE if want_code else SelectedFlag(0)
    for number, part in enumerate(parts, 1):
        more = SelectedFlag.MORE if number < len(parts) else SelectedFlag(0)
        yield Selected(module, code | more, tuple(Match(kernel, rule) for kernel, rule in part))


def find_close_names(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that are most similar to a pattern."""
    candidates = {strip_parameters(name): name for name in names}
    close = difflib.get_close_matches(pattern, candidates, n=_CLOSE_NAMES, cutoff=0.3)
    lowered = pattern.lower()
    inside = [name for name in candidates if lowered in name.lower() and name not in close]
    return (inside + close)[:_CLOSE_NAMES]


def choose_name_match(*, exact: bool, regex: bool, mangled: bool) -> NameMatch | None:
    """Choose how names are matched; None if no option is given. Raises UsageError for several options."""
    if exact + regex + mangled > 1:
        raise UsageError("--exact, --regex and --mangled exclude each other", hint="give one of them")
    if exact:
        return NameMatch.EXACT
    return NameMatch.REGEX if regex else NameMatch.MANGLED if mangled else None


def parse_shape(option: str, unit: str, text: str) -> Dim3:
    """Parse the value ``X[,Y[,Z]]`` of an option; 0 matches any size. ``unit`` is named in the error.

    Raises UsageError for any other text.
    """
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or any(not 0 <= number < 1 << 32 for number in numbers):
        raise UsageError(
            f"{option} takes up to three numbers of {unit}, not {text!r}",
            hint=f"{option} 128 or {option} 16,16",
        )
    padded = [*numbers, 0, 0]
    return (padded[0], padded[1], padded[2])
