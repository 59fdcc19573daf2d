"""What Triton knows about a kernel that the code object does not hold: its Python call."""

from __future__ import annotations

from pydantic import Field

from kerncap_stages.digest import FileRef
from kerncap_stages.manifests.base import Count, Frozen, OsText, SizeBytes


class TritonValue(Frozen):
    """A Python value as its type and its text, because JSON has no NaN, no dtype and no tuple."""

    name: str
    type_name: str = Field(description="`bool`, `int`, `float`, `str`, `none`, `dtype`, `function`, ...")
    text: str


class TritonTensor(Frozen):
    """The tensor that Python passed for a pointer argument."""

    parameter: str
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...] = Field(description="in elements")
    storage_offset_elements: Count
    storage_size_bytes: SizeBytes


class TritonKernel(Frozen):
    """The jitted function, the chosen configuration, and the tensors that it was called with."""

    function_name: str
    parameter_names: tuple[str, ...]
    signature: tuple[tuple[str, str], ...] = Field(description="[parameter, Triton type]")
    constexprs: tuple[TritonValue, ...]
    options: tuple[TritonValue, ...] = Field(
        description="every compile option: num_warps, num_stages, num_ctas, waves_per_eu, ..."
    )
    autotuned: bool = Field(description="an autotuner chose the configuration")
    triton_version: str | None = None
    tensors: tuple[TritonTensor, ...] = ()
    source_path: OsText | None = None
    source: FileRef | None = Field(default=None, description="the file that defined it, at compile time")
