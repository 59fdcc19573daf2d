"""What Triton knows about a kernel that the code object does not hold: its Python call."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kerncap_stages.digest import FileRef
from kerncap_stages.manifests.base import Address, Count, Dim3, DurationNs, Frozen, OsText, SizeBytes


class TritonValue(Frozen):
    """A Python value as its type and its text in Python: JSON has no NaN, no dtype and no tuple."""

    name: str
    type_name: str = Field(
        description="`bool`, `int`, `float`, `str`, `none`, `tuple`, `list`, `dtype`, `function`, `module`, "
        "`import` (a part of Triton), or the name of another type"
    )
    text: str = Field(description="`module:name` of a function and of an import; empty for other types")
    function: Count | None = Field(default=None, description="of a function: its place in `functions`")


class TritonTensor(Frozen):
    """A tensor that Python passed. What the object does not tell, as one that is not torch's, is none."""

    address: Address = Field(description="of its first element: `data_ptr()`")
    dtype: str = Field(description="as the object names it, without its module: `float32`")
    shape: tuple[Count, ...] | None = None
    strides: tuple[int, ...] | None = Field(default=None, description="in elements")
    storage_offset_elements: Count | None = None
    storage_size_bytes: SizeBytes | None = None


class TritonArgument(Frozen):
    """One argument of the Python call that launched the kernel; a tuple's elements are arguments `x[0]`."""

    name: str
    type_name: str = Field(
        description="`tensor`, `descriptor`, a plain type as of a constant, or the name of another type"
    )
    text: str = Field(default="", description="the value of a plain type, in Python")
    tensor: TritonTensor | None = Field(default=None, description="of a descriptor: what it describes")
    block_shape: tuple[Count, ...] | None = Field(default=None, description="of a descriptor")
    unknown: str | None = Field(default=None, description="why the argument could not be described")


class TritonLaunch(Frozen):
    """The Python call that launched the kernel. Compile-time constants are the kernel's: `constexprs`."""

    grid_programs: Dim3
    arguments: tuple[TritonArgument, ...]


class TritonConfiguration(Frozen):
    """One of the kernels that Triton compiled from a function, as a profile tells them apart."""

    function: str = Field(description="module and qualified name")
    constexprs: tuple[TritonValue, ...]
    options: tuple[TritonValue, ...] = Field(description="`num_warps` and `num_stages`")
    calls: int | None = Field(
        default=None, gt=0, description="none if the runtime tells kernels by names only"
    )
    total_ns: DurationNs | None = None

    @property
    def values(self) -> dict[str, str]:
        """What the function was compiled with, by name: as text in Python, or as the name of a type."""
        return {value.name: value.text or value.type_name for value in (*self.constexprs, *self.options)}


class TritonFunction(Frozen):
    """A function that Triton compiled into the kernel, and the file that defined it at that time."""

    module: str
    qualified_name: str
    path: OsText = Field(description="a notebook's cell or an executed string has a name, but no file")
    line: int = Field(gt=0)
    end_line: int = Field(gt=0)
    source: FileRef = Field(
        description="the whole file's text; the function's lines if the file was changed after Triton read it"
    )
    source_size_bytes: SizeBytes
    text: str = Field(description="from `def` on, as Triton compiled it")
    decorator: Literal["jit", "constexpr_function", "constexpr"] = Field(
        description="of the module `triton`; `constexpr` is its `language`'s, and holds a plain function"
    )
    noinline: bool
    has_own_name: bool = Field(description="its `repr` names the compiled function")
    uses: tuple[TritonValue, ...] = Field(
        default=(), description="what other names in it stand for, `x` or `module.x`"
    )


class TritonKernel(Frozen):
    """The jitted function, its chosen configuration, and what Triton compiled it with."""

    function_name: str
    dialect: Literal["triton", "gluon"]
    parameter_names: tuple[str, ...]
    signature: tuple[tuple[str, str], ...] = Field(description="[parameter, Triton type]")
    constexprs: tuple[TritonValue, ...]
    options: tuple[TritonValue, ...] = Field(
        description="every compile option: num_warps, num_stages, num_ctas, waves_per_eu, ..."
    )
    environment: tuple[tuple[str, str], ...] = Field(
        default=(), description="[variable, value]: those that change what Triton compiles"
    )
    specialization: tuple[tuple[str, str, str], ...] = Field(
        default=(), description="[parameter, attribute, value]: how Triton specialized the arguments"
    )
    functions: tuple[TritonFunction, ...] = Field(
        min_length=1, description="the kernel's function, then the functions that it calls, directly or not"
    )
    autotuned: bool = Field(description="an autotuner chose the configuration")
    target: tuple[str, str, int] = Field(description="[back end, processor, lanes]")
    ptx: FileRef | None = Field(default=None, description="the text that the cubin was assembled from (CUDA)")
    triton_version: str | None = None
    triton_folder: OsText | None = Field(default=None, description="the folder that the package is in")
    python: OsText | None = Field(default=None, description="the interpreter")
