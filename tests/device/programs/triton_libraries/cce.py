"""Call each kernel of cut-cross-entropy 25.1.1, with the options that select another specialisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calls import backward, ints, main, rand

if TYPE_CHECKING:
    import torch


def linear_cross_entropy() -> None:
    from cut_cross_entropy import linear_cross_entropy as operator

    backward(operator(*_inputs()))


def ignored_targets() -> None:
    from cut_cross_entropy import linear_cross_entropy as operator

    hidden, classifier, targets = _inputs()
    targets[:, ::5] = -100
    backward(operator(hidden, classifier, targets, reduction="sum"))


def softcap() -> None:
    from cut_cross_entropy import linear_cross_entropy as operator

    backward(operator(*_inputs(), softcap=20.0))


def shift_without_reduction() -> None:
    from cut_cross_entropy import linear_cross_entropy as operator

    backward(operator(*_inputs(), shift=True, reduction="none"))


def without_filter() -> None:
    from cut_cross_entropy import linear_cross_entropy as operator

    backward(operator(*_inputs(), filter_eps=None))


def frozen_classifier() -> None:
    from cut_cross_entropy import linear_cross_entropy as operator

    hidden, classifier, targets = _inputs()
    backward(operator(hidden, classifier.detach(), targets))


def forward_only() -> None:
    from cut_cross_entropy import linear_cross_entropy as operator

    hidden, classifier, targets = _inputs()
    operator(hidden.detach(), classifier.detach(), targets)


def _inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return hidden states, classifier and targets of 2 sequences of 128 tokens and 1024 classes."""
    return rand(2, 128, 256, grad=True), rand(1024, 256, grad=True, scale=0.05), ints(1024, 2, 128)


if __name__ == "__main__":
    main(globals())

# All kernels of the library are reached. Its implementation "torch_compile" has only kernels of Inductor.
