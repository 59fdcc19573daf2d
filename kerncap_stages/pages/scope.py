"""What a verdict covers: the states that were tried, what was left out, and what stayed the same in all runs.

The validation may be a model or a view; views of earlier verdicts lack some members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap_stages.text import formats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.capture import Capture
    from kerncap_stages.manifests.validation import Validation

# Of a verdict without states other than the captured one, and of one without fresh values.
_ONLY_STATE, _ONLY_VALUES = "captured state only", "captured values only"


def format_tried(manifest: Validation | View) -> str | None:
    """Say in a line what a variant that passed was tried with; None for any other verdict."""
    if not manifest.passed or manifest.variant is None:
        return None
    fresh = getattr(manifest, "fresh_states", None)
    others = manifest.pre_states - 1 - (fresh or 0)
    words = ["captured state"]
    words += [f"{others} {'other' if fresh is None else 'changed'}"] if others else []
    words += [f"{fresh} fresh (seed {manifest.seed})"] if fresh else []
    words += [formats.count(manifest.variant_runs, "run")]
    guard = manifest.guard
    words += [f"{guard.runs + guard.fresh_runs} guarded"] if guard is not None else []
    return f"Tried: {', '.join(words)}"


def name_limit(manifest: Validation | View) -> str | None:
    """Name in a few words to what a PASS on a variant is limited; None if it is the full verdict."""
    if not manifest.passed or manifest.variant is None:
        return None
    options = getattr(manifest, "options", None)
    if options is not None and not options.perturb:
        return _ONLY_STATE
    if options is not None and not options.fresh_values:
        return _ONLY_VALUES
    return _ONLY_VALUES if getattr(manifest, "inputs_kept", None) else None


def name_left_out(*, perturb: bool, fresh_values: bool) -> str | None:
    """Name the option that left states out, and what it left out; None if there was none."""
    if not perturb:
        return "--quick left out changed memory and fresh values of the inputs"
    return None if fresh_values else "--captured-values left out fresh values of the inputs"


def name_pass(manifest: Validation | View) -> str:
    """Name in a few words a PASS on a variant, with what it is limited to."""
    limit = name_limit(manifest) or (None if manifest.tolerance is None else "within bounds")
    return "PASS" if limit is None else f"PASS ({limit})"


def describe_limit(manifest: Validation | View, full: str | None = None) -> str | None:
    """Say in a line which states a PASS on a variant leaves out; None if it is the full verdict.

    full: the command that makes the full verdict, if one does.
    """
    limit = name_limit(manifest)
    if limit is None:
        return None
    options = getattr(manifest, "options", None)
    left_out = None
    if options is not None:
        left_out = name_left_out(perturb=bool(options.perturb), fresh_values=bool(options.fresh_values))
    if left_out is None:
        return (
            "Not full: no fresh values of the inputs were tried, or none that an output shows; the remarks "
            "say why; `kc-capture --cases N` captures other inputs to judge by"
        )
    text = f"Not full: {left_out}, so a variant that knows the captured results passes"
    text += ", and so may one that writes nothing" if limit == _ONLY_STATE else ""
    return f"{text}; full: `{full}`" if full is not None else text


def describe_fixed(manifest: Validation | View, capture: Capture | View) -> str | None:
    """Say in a line what had the captured values in all runs of a variant that passed."""
    if not manifest.passed or manifest.variant is None:
        return None
    shape = capture.launch if manifest.variant_shape is None else manifest.variant_shape
    blocks, block = formats.format_shape(shape.grid_blocks), formats.format_shape(shape.block_work_items)
    return (
        f"Fixed: scalar arguments, sizes, {blocks} work-groups of {block}; to judge by others, capture other "
        "launch shapes (`kc-capture --cases N`), or `--count N` dispatches for `kc-generate --together`"
    )


def describe_earlier(
    manifest: Validation | View, earlier: Iterator[tuple[str, Validation | View]]
) -> str | None:
    """Name in a line an earlier verdict on the same code that says more than a PASS that is not full.

    earlier: the short digest of each such verdict, and the verdict, the newest first. The newest FAIL counts,
    else the newest full PASS.
    """
    if not needs_earlier(manifest):
        return None
    full = None
    for digest, made in earlier:
        if not made.passed:
            return f"Earlier: FAIL ({_describe(made)}) on the same code: `kc-show {digest}` shows why"
        if full is None and name_limit(made) is None and name_limit(manifest) is not None:
            full = f"Earlier: PASS ({_describe(made)}) on the same code, the full verdict: {digest}"
    return full


def needs_earlier(manifest: Validation | View) -> bool:
    """Whether an earlier verdict on the same code may say more: this is a PASS with bounds, or not full."""
    if not manifest.passed or manifest.variant is None:
        return False
    return manifest.tolerance is not None or name_limit(manifest) is not None


def _describe(manifest: Validation | View) -> str:
    return str(manifest.mode).replace("_", "-")
