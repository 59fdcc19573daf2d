"""Call each operator of stanford-stk 0.7.1, products of block-sparse matrices, once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calls import backward, main, rand

if TYPE_CHECKING:
    import stk


def _sparse() -> stk.Matrix:
    """Return a matrix of 256 rows and 384 columns: 4 of its 6 blocks are stored."""
    import stk
    import torch

    rows, columns = (
        torch.tensor(indices, device="cuda", dtype=torch.int16) for indices in ([0, 0, 1, 1], [0, 2, 0, 1])
    )
    offsets = torch.tensor([0, 2, 4], device="cuda", dtype=torch.int32)
    data = rand(4, 128, 128, dtype="float16", grad=True)
    return stk.Matrix(torch.Size((256, 384)), data, rows, columns, offsets)


def dsd() -> None:
    import stk

    backward(stk.ops.dsd(_sparse(), rand(384, 128, dtype="float16", grad=True)))


def dsd_transposed() -> None:
    import stk

    backward(stk.ops.dsd(_sparse().t(), rand(256, 128, dtype="float16", grad=True)))


def dds() -> None:
    import stk

    backward(stk.ops.dds(rand(128, 256, dtype="float16", grad=True), _sparse()))


def dds_transposed() -> None:
    import stk

    backward(stk.ops.dds(rand(128, 384, dtype="float16", grad=True), _sparse().t()))


def sdd() -> None:
    import stk

    left, right = rand(256, 128, dtype="float16", grad=True), rand(128, 384, dtype="float16", grad=True)
    backward(stk.ops.sdd(left, right, _sparse()).data)


def row_indices() -> None:
    import stk

    matrix = _sparse()
    stk.ops.row_indices(matrix.shape, matrix.data, matrix.offsets, matrix.column_indices)


if __name__ == "__main__":
    main(globals())

# All kernels of the library are reached.
