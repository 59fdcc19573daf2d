"""Run the operators of a program of this folder: its functions, all of them or those named as arguments."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


def main(namespace: dict[str, Any]) -> None:
    """Run each operator, or those named; with `--list` print their names. Ends with 1 if one failed.

    `--configurations N` before the names: Triton's autotuner tries only N configurations of a kernel.
    """
    operators = operators_of(namespace)
    names = sys.argv[1:]
    if names == ["--list"]:
        print("\n".join(operators))
        return
    if names[:1] == ["--configurations"]:
        keep_configurations(int(names[1]))
        names = names[2:]
    unknown = [name for name in names if name not in operators]
    if unknown:
        sys.exit(f"no such operator: {', '.join(unknown)}")
    ran = [run(name, operators[name]) for name in names or operators]
    sys.exit(0 if all(ran) else 1)


def operators_of(namespace: dict[str, Any]) -> dict[str, Callable[[], None]]:
    """Return the functions which the program itself defines, without those whose name begins with `_`."""
    return {
        name: value
        for name, value in namespace.items()
        if inspect.isfunction(value)
        and value.__module__ == namespace["__name__"]
        and not name.startswith("_")
    }


def keep_configurations(count: int) -> None:
    """Shorten the lists of configurations of all kernels that are defined from now on."""
    from triton.runtime.autotuner import Autotuner

    original = Autotuner.__init__

    def shorter(self: Autotuner, fn: Any, arg_names: Any, configs: Any, *rest: Any, **named: Any) -> None:
        original(self, fn, arg_names, configs[:count], *rest, **named)

    Autotuner.__init__ = shorter


def run(name: str, operator: Callable[[], None]) -> bool:
    """Run one operator from a known seed, wait for its kernels, print how it ended; False if it failed."""
    import torch

    torch.manual_seed(0)
    try:
        operator()
        torch.cuda.synchronize()
    except Exception as error:
        lines = str(error).strip().splitlines()
        print(f"{name}: failed: {type(error).__name__}: {lines[0] if lines else ''}", flush=True)
        return False
    print(f"{name}: ok", flush=True)
    return True


def rand(*shape: int, dtype: str = "bfloat16", grad: bool = False, scale: float = 1.0) -> torch.Tensor:
    """Return normally distributed numbers on the GPU; with `grad` they take a gradient."""
    import torch

    values = torch.randn(*shape, device="cuda") * scale
    return values.to(getattr(torch, dtype)).requires_grad_(grad)


def ints(high: int, *shape: int, low: int = 0, dtype: str = "int64") -> torch.Tensor:
    """Return whole numbers from `low` to `high - 1` on the GPU."""
    import torch

    return torch.randint(low, high, shape, device="cuda", dtype=getattr(torch, dtype))


def backward(*outputs: torch.Tensor | None) -> None:
    """Run the backward pass of the outputs that have one, each with a random gradient."""
    import torch

    taken = [output for output in outputs if output is not None and output.requires_grad]
    torch.autograd.backward(taken, [torch.randn_like(output) for output in taken])
