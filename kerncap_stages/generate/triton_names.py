"""Makes the files that kerncap has for a captured Triton kernel: ``name_map.json``, and what it names."""

from __future__ import annotations

import ast
import json
import math
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from kerncap_stages.manifests.kernel import CodeObjectFormat
from kerncap_stages.manifests.os_strings import to_os_string

if TYPE_CHECKING:
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.triton import TritonFunction, TritonKernel, TritonLaunch, TritonValue

_NAME_MAP, _CODE, _SOURCES = "name_map.json", "triton_hsacos", "triton_sources"
_LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "waves_per_eu")
_PLAIN = frozenset({"bool", "float", "int", "list", "none", "str", "tuple"})
_INFINITE = re.compile(r"float\('(-?inf|nan)'\)")
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")
_MAX_NAME = 100


def make_name_map(capture: Capture, folder: str) -> tuple[dict[str, bytes], dict[str, str]]:
    """Make the files of a Triton kernel in ``folder``: contents by path, and digests of stored files by path.

    There is one row: the captured kernel's. Another kernel has none.
    """
    triton = capture.kernel.triton
    if triton is None:
        return {}, {}
    suffix = "hsaco" if capture.kernel.code_object.format is CodeObjectFormat.ELF_AMDGPU else "cubin"
    code = f"{_CODE}/{capture.code_digest}.{suffix}"
    copied = {code: str(capture.code_digest)}
    copied |= {_name_source(each): str(each.source.digest) for each in triton.functions}
    row = {
        "user_name": triton.function_name,
        "hsaco_sha256": capture.code_digest,
        "hsaco_path": code,
        "constexpr_values": make_constants(triton),
        "signature": dict(triton.signature),
        "param_names": list(triton.parameter_names),
        "launch": {
            value.name: write_json(value) for value in triton.options if value.name in _LAUNCH_OPTIONS
        },
        "source_file": to_os_string(triton.functions[0].path).encode(errors="replace").decode(),
        "source_snapshot": _name_source(triton.functions[0]),
        "tensor_layout": _describe_tensors(triton, capture.launch.triton),
        "synthesized_from_observer": False,
    }
    text = json.dumps([row], indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    files = {f"{folder}/{_NAME_MAP}": text.encode()}
    return files, {f"{folder}/{path}": digest for path, digest in copied.items()}


def make_constants(triton: TritonKernel) -> dict[str, object]:
    """Return the values of the compile-time constants as JSON has them."""
    return {value.name: write_json(value) for value in triton.constexprs}


def write_json(value: TritonValue) -> object:
    """Return a value as JSON has it; as its text in Python if JSON has none, as of a function."""
    if value.type_name not in _PLAIN:
        return value.text or value.type_name
    if (found := _INFINITE.fullmatch(value.text)) is not None:
        return found[1]
    try:
        read = ast.literal_eval(value.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return value.text
    return read if _is_json(read) else value.text


def _is_json(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_json, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str))


def _name_source(function: TritonFunction) -> str:
    """Name the copy of a function's file: files of one name, and two texts of one file, are kept apart."""
    name = _UNSAFE.sub("_", PurePosixPath(to_os_string(function.path)).name)[-_MAX_NAME:]
    return f"{_SOURCES}/{str(function.source.digest)[:16]}_{name}"


def _describe_tensors(triton: TritonKernel, launch: TritonLaunch | None) -> list[dict[str, Any]]:
    """Describe the tensors of the call. A tensor of a tuple has the index of the tuple."""
    found = []
    for argument in () if launch is None else launch.arguments:
        tensor, name = argument.tensor, argument.name.partition("[")[0]
        if tensor is not None and name in triton.parameter_names:
            found.append(
                {
                    "index": triton.parameter_names.index(name),
                    "name": argument.name,
                    "shape": None if tensor.shape is None else list(tensor.shape),
                    "stride": None if tensor.strides is None else list(tensor.strides),
                    "storage_offset": tensor.storage_offset_elements,
                    "dtype": tensor.dtype,
                    "nbytes_storage": tensor.storage_size_bytes,
                }
            )
    return found
