"""What bash hands over for completion, as typer expects it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping


def join_words(variables: MutableMapping[str, str]) -> None:
    """Join what bash has cut off behind `@`: `kc-show @cap` comes as three words, of which it replaces two.

    Where it has cut is not told: a word behind a lone `@` is joined to it, too.
    """
    words = variables.get("COMP_WORDS", "").split("\n")
    at = variables.get("COMP_CWORD", "")
    if not at.isdecimal() or not 1 < int(at) < len(words) or words[int(at) - 1] != "@":
        return
    words[int(at) - 1 : int(at) + 1] = [f"@{words[int(at)]}"]
    variables["COMP_WORDS"] = "\n".join(words)
    variables["COMP_CWORD"] = str(int(at) - 1)
