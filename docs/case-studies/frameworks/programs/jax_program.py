"""Kernels that XLA makes for JAX, which have no source. Compares with NumPy."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy


@jax.jit
def mix(x: jax.Array, y: jax.Array) -> jax.Array:
    """Compute something that XLA fuses into one kernel."""
    return jnp.exp(x) * y + x


@jax.jit
def softmax(x: jax.Array) -> jax.Array:
    """Normalise rows."""
    return jax.nn.softmax(x, axis=-1)


@jax.jit
def prefix(x: jax.Array) -> jax.Array:
    """Add up each row, from its start to each element."""
    return jnp.cumsum(x, axis=-1)


def main() -> None:
    """Run each three times, and compare the last results."""
    random = numpy.random.default_rng(2)
    x, y = (random.standard_normal((64, 512), dtype=numpy.float32) for _ in range(2))
    for _ in range(3):
        found = mix(x, y), softmax(x), prefix(x)
        jax.block_until_ready(found)
    power = numpy.exp(x)
    true = power * y + x, power / power.sum(axis=-1, keepdims=True), x.cumsum(axis=-1)
    wrong = [
        name
        for name, ours, other in zip(("mix", "softmax", "prefix"), found, true, strict=True)
        if not numpy.allclose(ours, other, 1e-4, 1e-4)
    ]
    print("wrong: " + ", ".join(wrong) if wrong else f"right, on {found[0].device}", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
