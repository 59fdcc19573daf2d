"""Groups a compile command's flags, each with the words that belong to it, in one spelling.

clang accepts some flags in several spellings, and some flags pass words on to its parts: `-Xclang WORD`,
`-Xclang=WORD`, `-Wp,WORD,WORD`. The words decide whether a flag is safe, so they are separated here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def split_words(text: str) -> frozenset[str]:
    """Split a table into its words."""
    return frozenset(text.split())


PATH_FLAGS = split_words(
    """
    -I -isystem -iquote -idirafter -include -imacros -isysroot -iprefix -iwithprefix -include-pch
    -ivfsoverlay --sysroot -cxx-isystem -internal-isystem -resource-dir
    """
)
# Flags that pass the next word to a part of the compiler. After -Xarch_NAME comes a flag of the driver
# itself.
TO_COMPILER = "-Xclang"
TO_OPTIMISER = "-mllvm"
FOR_ARCHITECTURE = "-Xarch_"
_SAME_AS_TO_COMPILER = "-Xpreprocessor"
_TAKE_A_WORD = split_words(
    """
    -o -MF -MT -MQ -MJ -x --offload-arch --no-offload-arch --serialize-diagnostics -arch -l -L -z -u -T
    --output --language -B --config -load -plugin -add-plugin -wrapper --prefix -D -U -target --target
    --param -std -working-directory -dependency-file -dependency-dot -gen-cdb-fragment-path
    -module-dependency-dir -dumpdir --for-linker --for-assembler
    """
)
_INNER_TAKE_A_WORD = split_words(
    """
    -o -dependency-file -MT -load -plugin -add-plugin -mllvm -D -U -target-feature -dwarf-debug-flags
    """
)


def group_flags(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield each flag with its words. In a group of words that are passed on, the flag precedes each word."""
    remaining = list(_unify_spelling(words))
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("-X") and word != TO_OPTIMISER:
            takes = word in PATH_FLAGS or word in _TAKE_A_WORD
            yield (word, remaining.pop(0)) if takes and remaining else (word,)
            continue
        if not remaining:
            yield (word,)
            continue
        group = [word, remaining.pop(0)]
        if len(remaining) > 1 and remaining[0] == word and _takes_word(group[1], remaining[1]):
            group += [remaining.pop(0), remaining.pop(0)]
        yield tuple(group)


def _takes_word(word: str, following: str) -> bool:
    """Whether the next word that is passed on belongs to ``word``."""
    return word in _INNER_TAKE_A_WORD or word in PATH_FLAGS or not following.startswith("-")


def _unify_spelling(words: Sequence[str]) -> Iterator[str]:
    for word in words:
        name, equals, value = word.partition("=")
        if word.startswith("-Wp,") and not word.startswith("-Wp,-M"):  # that names a dependency file
            for each in word.split(",")[1:]:
                yield from (TO_COMPILER, each)
        elif equals and name in (TO_COMPILER, _SAME_AS_TO_COMPILER, TO_OPTIMISER):
            yield from (TO_OPTIMISER if name == TO_OPTIMISER else TO_COMPILER, value)
        else:
            yield TO_COMPILER if word == _SAME_AS_TO_COMPILER else word
