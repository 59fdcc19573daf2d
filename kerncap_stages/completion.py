"""Convert bash's variables of completion to what typer expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping


def join_words(variables: MutableMapping[str, str]) -> None:
    """Join words that bash splits at `@`: it passes `kc-show @cap` as `kc-show`, `@` and `cap`.

    bash does not say where it split. So `@ cap` with a blank between is joined too.
    """
    words = variables.get("COMP_WORDS", "").split("\n")
    at = variables.get("COMP_CWORD", "")
    if not at.isdecimal() or not 1 < int(at) < len(words) or words[int(at) - 1] != "@":
        return
    words[int(at) - 1 : int(at) + 1] = [f"@{words[int(at)]}"]
    variables["COMP_WORDS"] = "\n".join(words)
    variables["COMP_CWORD"] = str(int(at) - 1)
