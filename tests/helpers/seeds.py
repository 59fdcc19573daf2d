"""Twenty seeds, with each of which a verdict has to be the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = range(1, 21)


def require_one_verdict(judge: Callable[..., int], *words: object, is_wrong: bool) -> None:
    """Require that verdicts with all seeds are what they have to be.

    judge: returns the exit code of kc-validate for a variant with these options.
    """
    codes = {seed: judge("--seed", seed, *words) for seed in SEEDS}
    assert set(codes.values()) == {int(is_wrong)}, codes
