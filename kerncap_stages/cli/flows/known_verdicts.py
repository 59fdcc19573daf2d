"""What the store knows of code that runs or is timed: the newest verdict, and a FAIL that it hides."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from kerncap_stages.pages.scope import name_pass, needs_earlier
from kerncap_stages.validate.timed.known_verdict import list_known_verdicts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests import View
    from kerncap_stages.manifests.replay import LaunchShape
    from kerncap_stages.store import Store
    from kerncap_stages.store.remembered import Remembered

MAX_EARLIER = 100  # verdicts on one code object that are looked at


class KnownVerdicts(NamedTuple):
    """The verdicts on a code object in one launch.

    failed: the newest one if it is FAIL, or an earlier FAIL if the newest is a PASS that says less.
    """

    newest: Remembered | None = None
    failed: Remembered | None = None

    def explain(self, *, has_times: bool) -> Iterator[str]:
        """Tell of a FAIL; where the code is timed, also that there is no verdict."""
        if self.newest is None:
            if has_times:
                yield "this store has no verdict on this code: `kc-validate` makes one"
        elif self.failed is not None:
            name = self.failed.digest.short
            what = f"the newest verdict on this code is FAIL: {name}"
            if self.failed is not self.newest:
                passed = name_pass(self.newest.made)
                what = f"the newest verdict on this code is {passed}, and an earlier one is FAIL: {name}"
            yield f"{what}; `kc-show {name}` shows why"


def find_known_verdicts(
    store: Store, capture: Digest, code: Digest, shape: LaunchShape | View | None
) -> KnownVerdicts:
    """Find the verdicts on a code object in this launch that matter to who runs it.

    code: SHA-256 of the code for the captured GPU. shape: of the launch; None: as captured.
    """
    found = list_known_verdicts(store, capture, code, shape)
    newest = next(found, None)
    if newest is None or not newest.made.passed:
        return KnownVerdicts(newest, newest)
    if not needs_earlier(newest.made):
        return KnownVerdicts(newest)
    return KnownVerdicts(
        newest, next((each for each in islice(found, MAX_EARLIER) if not each.made.passed), None)
    )
