"""Processes that measure when they are asked: alone and under kc-capture, by turns of milliseconds.

The processors of a shared machine are slower for seconds at a time. Processes that measure by turns on
one core see the same of it, and their ratio tells them apart where runs, one after the other, do not.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

LOOK_EVERY_S = 0.5
LIMIT_S = 90.0  # for one answer; the first one comes once the program has started

Ratios = list[list[float]]  # of two processes of each group, turn by turn


class Asked:
    """A program that answers each line of its standard input with a number."""

    def __init__(self, words: Sequence[object], lead: Sequence[object], store: Path, folder: Path) -> None:
        """``lead``: kc-capture with its options, or nothing for the program alone."""
        ends = Path(tempfile.mkdtemp(dir=folder))
        for name in ("questions", "answers"):
            os.mkfifo(ends / name)
        # Both ends are ours as well: neither opening nor writing ever waits for the program.
        self._questions, self._answers = (
            os.open(ends / name, os.O_RDWR) for name in ("questions", "answers")
        )
        self._errors = ends / "errors"
        with ExitStack() as files:
            errors = files.enter_context(self._errors.open("wb"))
            streams = {"stderr": errors, "stdout": errors}
            if lead:
                lead = (*lead, "--app-stdin", ends / "questions", "--app-stdout", ends / "answers", "--")
            else:
                streams["stdin"] = files.enter_context((ends / "questions").open("rb"))
                streams["stdout"] = files.enter_context((ends / "answers").open("wb"))
            self._process = subprocess.Popen(
                [str(word) for word in (*lead, *words)],
                env={**os.environ, "KERNCAP_STORE": str(store)},
                **streams,
            )
        self._text = b""

    def ask(self, question: str) -> None:
        """Have it measure."""
        os.write(self._questions, question.encode() + b"\n")

    def answer(self) -> float:
        """What it measured. Raises RuntimeError if it ended, or does not answer."""
        give_up_at = time.monotonic() + LIMIT_S
        while b"\n" not in self._text:
            if select.select([self._answers], [], [], LOOK_EVERY_S)[0]:
                self._text += os.read(self._answers, 4096)
            elif self._process.poll() is not None or time.monotonic() > give_up_at:
                words, text = self._process.args, self._errors.read_text()
                raise RuntimeError(f"{words} does not answer: {text[-1500:]}")
        line, self._text = self._text.split(b"\n", 1)
        return float(line)

    def asked(self, question: str) -> float:
        """Have it measure, and wait for what it measured."""
        self.ask(question)
        return self.answer()

    def hang_up(self, *, failed: bool) -> None:
        """Let it read the end of its input, and end. After a failure it may not have begun to read."""
        if failed:
            self._process.terminate()
        for end in (self._questions, self._answers):
            os.close(end)

    def wait(self) -> int:
        """Wait until it has ended; its exit code."""
        return self._process.wait(LIMIT_S)


class Under(NamedTuple):
    """What a program runs under: kc-capture with its options, or ``variables``, each NAME=VALUE."""

    lead: Sequence[object] = ()
    variables: Sequence[str] = ()


class Turns(NamedTuple):
    """``ratios``: turn by turn of each group, under something to alone; all answers alone; all under it."""

    ratios: Ratios
    alone: list[float]
    under: list[float]


class Groups:
    """A program several times, each time alone and under this and that; all run at once, and one measures."""

    def __init__(
        self, count: int, words: Sequence[object], others: Sequence[Under], store: Path, folder: Path
    ) -> None:
        """``count``: of groups, each of one alone and one under each of ``others``."""
        self._groups = [
            [
                Asked(("env", *each.variables, *words) if each.variables else words, each.lead, store, folder)
                for each in (Under(), *others)
            ]
            for _ in range(count)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        every = [process for group in self._groups for process in group]
        for process in every:
            process.hang_up(failed=kind is not None)
        codes = {process.wait() for process in every}
        if kind is None and codes != {0}:
            raise RuntimeError(f"of the processes some ended with {sorted(codes)}: was the target captured?")

    def all_at_once(self, question: str) -> None:
        """What is not measured: they start, or come to a point in their course."""
        every = [process for group in self._groups for process in group]
        for process in every:
            process.ask(question)
        for process in every:
            process.answer()

    def by_turns(self, question: str, turns: int) -> list[Turns]:
        """Of each of the others what it measured, and what those alone did."""
        found = [Turns([[] for _ in self._groups], [], []) for _ in self._groups[0][1:]]
        for turn in range(turns):
            for number, group in enumerate(self._groups):
                # Each turn begins with another one.
                order = [(turn + place) % len(group) for place in range(len(group))]
                answers = {which: group[which].asked(question) for which in order}
                for which, each in enumerate(found, 1):
                    each.ratios[number].append(answers[which] / answers[0])
                    each.alone.append(answers[0])
                    each.under.append(answers[which])
        return found
