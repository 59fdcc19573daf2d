"""One operation of CuPy or JAX, which the arguments name. Prints `right` or `wrong`, compared with NumPy."""

from __future__ import annotations

import sys
from typing import Any

import numpy

RANDOM = numpy.random.default_rng(3)
X = RANDOM.standard_normal((64, 64), dtype=numpy.float32)
SYMMETRIC = X @ X.T + 64 * numpy.eye(64, dtype=numpy.float32)


def run_cupy(name: str) -> tuple[Any, Any]:
    """Return what CuPy computes, and what NumPy does."""
    import cupy

    x = cupy.asarray(X)
    match name:
        case "matmul":
            return (x @ x).get(), X @ X
        case "matmul of half precision":
            half = X.astype(numpy.float16)
            return (x.astype("e") @ x.astype("e")).get().astype("f"), half.astype("f") @ half.astype("f")
        case "matmul of double precision":
            return (x.astype("d") @ x.astype("d")).get(), X.astype("d") @ X.astype("d")
        case "sort":
            return cupy.sort(x).get(), numpy.sort(X)
        case "FFT":
            return cupy.fft.fft(x).get(), numpy.fft.fft(X)
    return cupy.linalg.solve(cupy.asarray(SYMMETRIC), x).get(), numpy.linalg.solve(SYMMETRIC, X)


def run_jax(name: str) -> tuple[Any, Any]:
    """Return what JAX computes, and what NumPy does."""
    import jax
    import jax.numpy as jnp

    x = jnp.asarray(X)
    match name:
        case "matmul":
            return jax.jit(jnp.matmul)(x, x), X @ X
        case "sort":
            return jax.jit(jnp.sort)(x), numpy.sort(X)
        case "FFT":
            return jax.jit(jnp.fft.fft)(x), numpy.fft.fft(X)
        case "Pallas":
            return run_pallas(x), numpy.maximum(2 * X, 0)
    return jax.jit(jnp.linalg.cholesky)(jnp.asarray(SYMMETRIC)), numpy.linalg.cholesky(SYMMETRIC)


def run_pallas(x: Any) -> Any:
    """Run a kernel that is written in Pallas, which XLA compiles by its Triton."""
    import jax
    from jax.experimental import pallas

    def double(source: Any, target: Any) -> None:
        target[...] = jax.numpy.maximum(2 * source[...], 0)

    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.jit(pallas.pallas_call(double, out_shape=shape, name="pallas_double"))(x)


if __name__ == "__main__":
    found, true = {"cupy": run_cupy, "jax": run_jax}[sys.argv[1]](sys.argv[2])
    # A product of half precision is rounded to it.
    near = 0.05 if "half" in sys.argv[2] else 2e-3
    print("right" if numpy.allclose(numpy.asarray(found), true, near, near) else "wrong", flush=True)
