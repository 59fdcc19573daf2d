"""The cases of a project: captures of one kernel in several launch shapes, or with several scalars."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kerncap_stages.code.element_types import count_lanes, find_element_type
from kerncap_stages.code.kernel_names import parse_kernel_name
from kerncap_stages.digest import ManifestRef
from kerncap_stages.manifests import open_view
from kerncap_stages.text.formats import format_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests import View
    from kerncap_stages.store import Store

_SCALAR_BYTES = 8
_MOST_SCALARS = 4  # in the title of a case
_LARGE = 1 << 24  # from here on a number of unknown type is probably a float or an address
# For the module struct, and to show a number.
_FORMS = {
    "fp16": ("e", ".7g"),
    "fp32": ("f", ".7g"),
    "fp64": ("d", ".15g"),
    "int8": ("b", "d"),
    "int16": ("h", "d"),
    "int32": ("i", "d"),
    "int64": ("q", "d"),
}


@dataclass(frozen=True)
class Case:
    """A capture among others of one project.

    kernel: demangled name.
    launch: the grid and the block, in words, and what tells it from other captures with the same ones; empty
    if the kernel has no other capture.
    time_ns: of all dispatches in this shape, as the profile measured it; None if there was no profile.
    calls: the dispatches in this shape, likewise. held_out: it is not in the project.
    """

    kernel: str
    launch: str
    time_ns: int | None
    held_out: bool = False
    calls: int | None = None

    @property
    def title(self) -> str:
        """The kernel and its launch."""
        return f"{self.kernel}, {self.label}" if self.launch else self.kernel

    @property
    def label(self) -> str:
        """The launch, and whether the case is held out."""
        return f"{self.launch} (held out)" if self.held_out else self.launch


def read_cases(captures: Sequence[tuple[Store, Digest]], in_project: int | None = None) -> list[Case]:
    """Read what tells captures apart that are judged one after the other; each with its store.

    in_project: how many of them, from the first on, the project holds; None: all.
    """
    held_out = len(captures) if in_project is None else in_project
    read = [_read_case(store, capture) for store, capture in captures]
    scalars = [values for _, values in read]
    cases = [
        replace(case, held_out=number >= held_out)
        for number, case in enumerate(_tell_apart([case for case, _ in read], scalars, captures))
    ]
    count = Counter(case.kernel for case in cases)
    return [case if count[case.kernel] > 1 else replace(case, launch="") for case in cases]


def find_own_capture(store: Store, digest: Digest) -> Digest:
    """Return the capture of a source; any other artifact as it is."""
    with open_view(store, digest) as made:
        return ManifestRef(made.capture).digest if made.kind == "source" else digest


def find_group(store: Store, digest: Digest) -> tuple[str, ...]:
    """Return what the cases of one kernel in one run have in common; for any other artifact, its digest."""
    with open_view(store, find_own_capture(store, digest)) as made:
        if made.kind != "capture" or not made.selection.by_case:
            return (digest,)
        return (made.dispatch.run_id, made.kernel.mangled_name, made.kernel.code_object.payload)


def summarise_cases(cases: Sequence[Case], passed: Sequence[bool]) -> Iterator[str]:
    """Yield lines that say for which cases of a kernel a variant is right; nothing for several kernels."""
    if len({case.kernel for case in cases}) != 1 or len(cases) == 1:
        return
    wrong = [case for case, is_right in zip(cases, passed, strict=True) if not is_right]
    if not wrong:
        yield (
            f"Cases: right for all {len(cases)}; other scalar arguments, sizes and launches were not tried "
            "(`--held-out CAPTURE` adds one)"
        )
        return
    yield f"Cases: right for {len(cases) - len(wrong)} of {len(cases)}, wrong for:"
    yield from (f"  {case.label}" for case in wrong)
    if len(wrong) < len(cases):
        yield "  it is right for these, and may be specialised to their sizes or values:"
        yield from (f"  {case.label}" for case, is_right in zip(cases, passed, strict=True) if is_right)


def average_ratios(cases: Sequence[Case], ratios: Iterable[float]) -> float | None:
    """Average the ratios of times of all cases, each by its share of the kernel's time in the profile.

    Returns None if the time of a case is not known.
    """
    times = [case.time_ns for case in cases]
    known = [time_ns for time_ns in times if time_ns]
    if len(known) < len(times):
        return None
    return sum(ratio * time_ns for ratio, time_ns in zip(ratios, known, strict=True)) / sum(known)


def compare_counts(calls: Sequence[int | None], counts: Sequence[tuple[int, int]]) -> float | None:
    """Compare counts of instructions over all cases, each as often as it was called.

    calls: of each case in the profile; if one is None, all cases count once. counts: of the variant and of
    the captured kernel, in one dispatch. Returns None if the captured kernel has none.
    """
    known = [each for each in calls if each is not None]
    weights = known if len(known) == len(calls) else [1] * len(calls)
    pairs = list(zip(weights, counts, strict=True))
    captured = sum(weight * before for weight, (_, before) in pairs)
    return sum(weight * after for weight, (after, _) in pairs) / captured if captured else None


def _read_case(store: Store, capture: Digest) -> tuple[Case, dict[str, str]]:
    """Return a case, and its scalar arguments by their names, for people."""
    with open_view(store, capture) as made:
        shape = _shape_of(made.launch)
        measured = next((case for case in made.selection.cases if _shape_of(case) == shape), None)
        case = Case(
            kernel=made.kernel.demangled_name,
            launch=f"{format_shape(shape[0])} work-groups of {format_shape(shape[1])}",
            time_ns=None if measured is None else measured.total_ns,
            calls=None if measured is None else measured.calls,
        )
        return case, _read_scalars(made)


def _read_scalars(capture: View) -> dict[str, str]:
    """Return the scalar arguments by their names, without addresses: a cubin calls pointers values, too."""
    kernarg = bytes.fromhex(capture.kernarg)
    types = parse_kernel_name(capture.kernel.demangled_name).parameters
    scalars = {}
    for number, slot in enumerate(capture.kernel.slots):
        if slot.value_kind == "by_value" and slot.size_bytes <= _SCALAR_BYTES:
            name = getattr(slot, "name", None) or f"argument {number}"
            begin = slot.offset_bytes
            content = kernarg[begin : begin + slot.size_bytes]
            value = int.from_bytes(content, "little")
            if not any(0 <= value - region.base_address < region.size_bytes for region in capture.regions):
                scalars[name] = _format_scalar(content, types[number] if number < len(types) else "")
    return scalars


def _tell_apart(
    cases: Sequence[Case], scalars: Sequence[dict[str, str]], captures: Sequence[tuple[Store, Digest]]
) -> Iterator[Case]:
    """Where cases of one kernel have one launch shape, name what differs: scalar arguments, else captures."""
    for case, own, (_, capture) in zip(cases, scalars, captures, strict=True):
        alike = [
            values
            for other, values in zip(cases, scalars, strict=True)
            if (other.kernel, other.launch) == (case.kernel, case.launch)
        ]
        names = [name for name in own if any(values.get(name) != own[name] for values in alike)]
        told = [f"{name} = {own[name]}" for name in names]
        if alike.count(own) > 1 or not 0 < len(names) <= _MOST_SCALARS:
            told = [f"capture {capture.short}"]
        yield case if len(alike) == 1 else replace(case, launch=", ".join([case.launch, *told]))


def _format_scalar(content: bytes, type_text: str) -> str:
    """Show a scalar's bytes, little-endian. ``type_text``: its type in C++; empty if it is not known."""
    kind = find_element_type(type_text) if count_lanes(type_text) == 1 else None
    code, form = _FORMS.get(kind or "", ("", ""))
    if code and struct.calcsize(code) == len(content):
        return f"{struct.unpack(f'<{code}', content)[0]:{form}}"
    value = int.from_bytes(content, "little")
    return f"{value:#x}" if value >= _LARGE else str(value)


def _shape_of(launch: View) -> tuple[list[int], list[int]]:
    return list(launch.grid_blocks), list(launch.block_work_items)
