"""Hypothesis strategies for every model of the manifests, from the models themselves.

A field's strategy follows its annotation and its bounds; the few models whose fields depend on each other
have a strategy of their own below.
"""

from __future__ import annotations

import enum
import functools
import types
import typing
from typing import Any

import annotated_types
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from kerncap_stages.digest import _PatternString
from kerncap_stages.manifests import base, find_model
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.evaluation import CaseResult, EvaluatedCase, EvaluatedVariant, Evaluation
from kerncap_stages.manifests.files import Files, StoredLink
from kerncap_stages.manifests.kernel import Kernel, Launch
from kerncap_stages.manifests.memory import ModuleVariable, Region, Snapshot
from kerncap_stages.manifests.profile import KernelStatistics, Profile
from kerncap_stages.manifests.replay import Replay, ReplayOutcome
from kerncap_stages.manifests.reproducer import Reproducer
from kerncap_stages.manifests.source import Outcome, Source, Unedited

# Surrogates are no text: os_text turns them into bytes before they come here.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PATH = st.lists(st.sampled_from(["a", "b.h", "ç", "..c", " "]), min_size=1, max_size=3).map("/".join)


def models(model: type[BaseModel], **fixed: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy for a model; ``fixed`` replaces the strategies of some fields."""
    return st.builds(model, **(_fields(model) | fixed))


@functools.cache
def _fields(model: type[BaseModel]) -> dict[str, st.SearchStrategy[Any]]:
    return {name: of_field(field) for name, field in model.model_fields.items()}


def of_field(field: FieldInfo) -> st.SearchStrategy[Any]:
    return of_type(field.annotation, tuple(field.metadata))


def of_type(kind: Any, metadata: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return of_type(arguments[0], (*metadata, *_flat(arguments[1:])))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(of_type(argument, metadata) for argument in arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        least = next((part.min_length for part in metadata if isinstance(part, annotated_types.MinLen)), 0)
        return st.lists(of_type(arguments[0]), min_size=least, max_size=least + 2).map(tuple)
    if origin is tuple:
        return st.tuples(*(of_type(argument) for argument in arguments))
    if origin is dict:
        return st.dictionaries(of_type(arguments[0]), of_type(arguments[1]), max_size=2)
    return _of_plain_type(kind, metadata)


def _flat(metadata: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        inner for part in metadata for inner in (part.metadata if isinstance(part, FieldInfo) else (part,))
    )


def _of_plain_type(kind: Any, metadata: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if kind is type(None):
        return st.none()
    if kind is bool:
        return st.booleans()
    if issubclass(kind, enum.Enum):
        return st.sampled_from(kind)
    if issubclass(kind, _PatternString):
        prefix = getattr(kind, "prefix", "")
        return st.binary(min_size=32, max_size=32).map(lambda digest: kind(prefix + digest.hex()))
    if kind is int:
        return st.integers(*_bounds(metadata))
    if kind is float:
        bounds = [part for part in metadata if isinstance(part, annotated_types.Ge | annotated_types.Le)]
        low, high = _bounds(metadata) if bounds else (None, None)
        return st.floats(low, high, allow_nan=not bounds, allow_infinity=not bounds)
    if kind is str:
        return _of_text(metadata)
    special = SPECIAL.get(kind)
    return special() if special else models(kind)


def _of_text(metadata: tuple[Any, ...]) -> st.SearchStrategy[str]:
    for part in metadata:
        if isinstance(part, AfterValidator) and part.func is base._check_inside_project:
            return PATH
        pattern = getattr(part, "pattern", None)
        if isinstance(part, StringConstraints) or pattern:
            return st.from_regex(pattern, fullmatch=True, alphabet=st.characters(max_codepoint=126))
    least = max((part.min_length for part in metadata if isinstance(part, annotated_types.MinLen)), default=0)
    return TEXT.filter(lambda text: len(text) >= least)


def _bounds(metadata: tuple[Any, ...]) -> tuple[int | None, int | None]:
    low, high = None, None
    for part in metadata:
        if isinstance(part, annotated_types.Ge):
            low = part.ge
        elif isinstance(part, annotated_types.Gt):
            low = part.gt + 1
        elif isinstance(part, annotated_types.Le):
            high = part.le
        elif isinstance(part, annotated_types.Lt):
            high = part.lt - 1
    return low, high


@st.composite
def launches(draw: st.DrawFn) -> Launch:
    block = draw(st.tuples(*[st.integers(1, 2**16 - 1)] * 3))
    grid = draw(st.tuples(*[st.integers(0, 2**32 - 1)] * 3))
    blocks = tuple(-(-items // width) for items, width in zip(grid, block, strict=True))
    packet = st.none() | st.binary(min_size=64, max_size=64).map(bytes.hex)
    return draw(
        models(
            Launch,
            grid_work_items=st.just(grid),
            grid_blocks=st.just(blocks),
            block_work_items=st.just(block),
            cluster_blocks=st.none() | st.just((0, 0, 0)) | st.tuples(*[st.integers(1, 2**32 - 1)] * 3),
            aql_packet=packet,
            attributes=st.dictionaries(TEXT, TEXT, max_size=2).flatmap(
                lambda others: st.integers(-1, 100).map(lambda carveout: others | {"carveout": str(carveout)})
            ),
        )
    )


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    slots = draw(of_field(Kernel.model_fields["slots"]))
    placed = tuple(
        slot.model_copy(update={"offset_bytes": 8 * i, "size_bytes": 8}) for i, slot in enumerate(slots)
    )
    return draw(models(Kernel, slots=st.just(placed), kernarg_size_bytes=st.integers(8 * len(placed), 64)))


@st.composite
def snapshots(draw: st.DrawFn, model: type[Snapshot]) -> Snapshot:
    size = draw(st.integers(0, 2**40))
    pre = draw(of_field(Snapshot.model_fields["pre"]))
    post = None if pre is None else draw(of_field(Snapshot.model_fields["post"]))
    ends = sorted(draw(st.sets(st.integers(0, size), max_size=6)))
    ranges = tuple((low, high - low) for low, high in zip(ends[::2], ends[1::2], strict=False))
    fixed = {
        "size_bytes": size,
        "pre": pre,
        "post": post,
        "written": None if post is None else ranges,
        "written_size_bytes": None if post is None else sum(length for _, length in ranges),
        "left_out_reason": None if pre is not None else draw(TEXT),
    }
    address = "base_address" if model is Region else "address"
    fixed[address] = draw(st.integers(0, 2**64 - max(size, 1)))
    return draw(models(model, **{name: st.just(value) for name, value in fixed.items()}))


@st.composite
def captures(draw: st.DrawFn) -> Capture:
    kernel = draw(kernels())
    kernarg = draw(st.binary(min_size=kernel.kernarg_size_bytes, max_size=80)).hex()
    regions = [
        region.model_copy(update={"base_address": 2**41 * place})
        for place, region in enumerate(draw(st.lists(snapshots(Region), max_size=3)), 1)
    ]
    drawn = draw(
        models(
            Capture,
            kernel=st.just(kernel),
            kernarg=st.just(kernarg),
            regions=st.just(()),
            module_variables=st.just(()),
            loaded_code_objects=st.just(()),
            environment=environments(),
            dispatch=of_type(Capture.model_fields["dispatch"].annotation).map(
                lambda dispatch: dispatch.model_copy(update={"device_index": 0})
            ),
        )
    )
    on_first = {"device_index": 0, "accessible_from": (0,)}
    content = drawn.model_dump() | {
        "regions": tuple(region.model_copy(update=on_first) for region in regions),
        "module_variables": tuple(
            variable.model_copy(update={"device_index": 0})
            for variable in draw(st.lists(snapshots(ModuleVariable), max_size=2))
        ),
    }
    return Capture.model_validate(content)


@st.composite
def environments(draw: st.DrawFn) -> Any:
    drawn = draw(models(Capture.model_fields["environment"].annotation))
    device = draw(of_type(typing.get_args(type(drawn).model_fields["devices"].annotation)[0]))
    return drawn.model_copy(update={"devices": (device.model_copy(update={"index": 0}),)})


@st.composite
def kernel_statistics(draw: st.DrawFn) -> KernelStatistics:
    shapes = draw(of_field(KernelStatistics.model_fields["launch_shapes"]))
    last = st.sampled_from([None, *range(len(shapes))])
    return draw(models(KernelStatistics, launch_shapes=st.just(shapes), last_shape=last))


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    kernels = draw(of_field(Profile.model_fields["kernels"]))
    ranked = tuple(sorted(kernels, key=lambda kernel: -kernel.total_ns))
    return draw(models(Profile, kernels=st.just(ranked)))


@st.composite
def reproducers(draw: st.DrawFn) -> Reproducer:
    files = draw(of_field(Reproducer.model_fields["files"]))
    named = {f"{index}/{file.path}": file for index, file in enumerate(files)}
    ordered = tuple(file.model_copy(update={"path": path}) for path, file in sorted(named.items()))
    return draw(models(Reproducer, files=st.just(ordered)))


@st.composite
def sources(draw: st.DrawFn) -> Source:
    outcome = draw(st.sampled_from(Outcome))
    definition = Source.model_fields["definition"].annotation
    files = of_field(Source.model_fields["files"])
    if outcome is Outcome.FOUND:
        return draw(
            models(
                Source,
                outcome=st.just(outcome),
                definition=of_type(typing.get_args(definition)[0]),
                files=files.filter(lambda listed: listed != ()),
                unedited=unedited(),
            )
        )
    return draw(models(Source, outcome=st.just(outcome), definition=st.none(), unedited=st.none()))


def unedited() -> st.SearchStrategy[Unedited]:
    unlike = st.builds(Unedited, same_instructions=st.sampled_from([None, False]), why=TEXT)
    return unlike | st.just(Unedited(same_instructions=True))


@st.composite
def replays(draw: st.DrawFn) -> Replay:
    outcome = draw(st.sampled_from(ReplayOutcome))
    explanation = TEXT if outcome is not ReplayOutcome.COMPLETED else st.none() | TEXT
    return draw(models(Replay, outcome=st.just(outcome), explanation=explanation))


@st.composite
def evaluations(draw: st.DrawFn) -> Evaluation:
    cases = draw(st.lists(models(EvaluatedCase), min_size=1, max_size=2).map(tuple))
    results = st.lists(models(CaseResult), min_size=len(cases), max_size=len(cases)).map(tuple)
    variants = draw(
        st.lists(models(EvaluatedVariant, cases=results | st.just(()), same_as=st.none()), max_size=2)
    )
    if variants:
        variants.append(variants[0].model_copy(update={"same_as": 0}))
    return draw(models(Evaluation, cases=st.just(cases), variants=st.just(tuple(variants))))


@st.composite
def file_lists(draw: st.DrawFn) -> Files:
    files = draw(of_field(Files.model_fields["files"]))
    numbered = tuple(
        file.model_copy(update={"path": f"{index}/{file.path}"}) for index, file in enumerate(files)
    )
    target = st.sampled_from(["0", "../x", "../../y", "./z", ".."])
    links = draw(st.lists(st.builds(StoredLink, path=st.just("x/y/z"), target=target), max_size=1))
    if draw(st.booleans()) and files:
        single = (files[0].model_copy(update={"path": "name"}),)
        return Files(made_by="me", name="name", is_folder=False, files=single)
    return draw(
        models(Files, is_folder=st.just(True), files=st.just(numbered), links=st.just(tuple(links)),
               empty_folders=st.sampled_from([(), ("e",), ("e/f", "g")]))
    )  # fmt: skip


SPECIAL: dict[Any, Any] = {
    Launch: launches,
    Kernel: kernels,
    Region: lambda: snapshots(Region),
    ModuleVariable: lambda: snapshots(ModuleVariable),
    Capture: captures,
    KernelStatistics: kernel_statistics,
    Profile: profiles,
    Reproducer: reproducers,
    Source: sources,
    Unedited: unedited,
    Replay: replays,
    Evaluation: evaluations,
    Files: file_lists,
}


def manifests(kind: str) -> st.SearchStrategy[base.Manifest]:
    """Return a strategy for whole manifests of a kind."""
    return of_type(find_model(kind))
