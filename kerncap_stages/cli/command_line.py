"""The program's command in a stage's command line: everything after the first ``--``."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from typing import TYPE_CHECKING, Any

from typer.core import TyperCommand

from kerncap_stages.errors import KerncapError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kerncap_stages.digest import Digest
    from kerncap_stages.store import Store


class MissingDashesError(UsageError):
    """A program was given without ``--`` before it.

    ``needs``: options that have to be added as well.
    """

    def __init__(self, message: str, needs: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.needs = needs


class ProgramCommand(TyperCommand):
    """``cls=`` of a command that takes a program after ``--``: shows that in the usage line and in errors."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line."""
        shown = [param for param in self.params if not getattr(param, "hidden", False)]
        pieces = [piece for param in shown for piece in param.get_usage_pieces(ctx)]
        program = "[-- PROGRAM [ARGS]...]" if pieces else "-- PROGRAM [ARGS]..."
        return [self.options_metavar or "", *pieces, program]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words. If a program comes before an unknown option, suggest the missing ``--``."""
        self._words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            first = self._find_first_argument()
            if not hasattr(error, "format_message") or first is None or not _is_program(self._words[first]):
                raise
            program = self._words[first]
            raise UsageError(
                f"{error.format_message().rstrip('.')}. Or `--` is missing before the program {program}",
                hint=shlex.join([ctx.command_path, *self._words[:first], "--", *self._words[first:]]),
            ) from error

    def invoke(self, ctx: Any) -> Any:
        """Run the command. If it took a program for an artifact, show the command line with ``--``."""
        try:
            return super().invoke(ctx)
        except MissingDashesError as error:
            options, arguments = self._split()
            error.hint = shlex.join([ctx.command_path, *options, *error.needs, "--", *arguments])
            raise

    def _find_first_argument(self) -> int | None:
        """Find the index of the first word that is not an option; None if an unknown option comes first."""
        at = 0
        while at < len(self._words) and self._is_option(self._words[at]):
            length = self._count_words(self._words[at])
            if length is None:
                return None
            at += length
        return at if at < len(self._words) else None

    def _split(self) -> tuple[list[str], list[str]]:
        """Split the words into options with their values, and all others. Both keep their order."""
        options: list[str] = []
        arguments: list[str] = []
        at = 0
        while at < len(self._words):
            length = (self._count_words(self._words[at]) or 1) if self._is_option(self._words[at]) else 1
            into = options if self._is_option(self._words[at]) else arguments
            into += self._words[at : at + length]
            at += length
        return options, arguments

    @staticmethod
    def _is_option(word: str) -> bool:
        return len(word) > 1 and word.startswith("-")

    def _count_words(self, word: str) -> int | None:
        """Count the words of an option and its value: 1 or 2; None if there is no such option."""
        name, equals, _ = word.partition("=")
        for param in self.params:
            for each in (*param.opts, *param.secondary_opts):
                takes_value = not getattr(param, "is_flag", False) and not getattr(param, "count", False)
                if name == each:
                    return 2 if takes_value and not equals else 1
                if len(each) == 2 and not word.startswith("--") and word.startswith(each):
                    return 1  # -ofile, or several flags
        return 1 if word in ("-h", "--help") else None


def _is_program(text: str) -> bool:
    return os.path.isfile(text) or shutil.which(text) is not None  # noqa: PTH113 - pathlib is not needed for this


def take_command(argv: list[str] | None = None) -> tuple[str, ...] | None:
    """Remove the program's command from ``sys.argv`` and return it; None if there is no ``--``.

    Runs before the options are parsed, so that the program's options are never taken for the stage's.
    """
    arguments = sys.argv if argv is None else argv
    if "--" not in arguments:
        return None
    at = arguments.index("--")
    command = tuple(arguments[at + 1 :])
    del arguments[at:]
    return command


def resolve_artifact(store: Store, text: str, needs: Sequence[str] = ()) -> Digest:
    """Resolve an artifact. If there is none but a program has that name, suggest the missing ``--``.

    needs: options that must be added as well if a program was meant.
    Raises MissingDashesError for a program, else what the store raises.
    """
    try:
        return store.resolve(text)
    except KerncapError as error:
        if not _is_program(text):
            if not text.startswith("@"):
                error.hint = f"{error.hint}; use --kernel to name a kernel"
            raise
        raise MissingDashesError(
            f"no artifact is called {text}, which is a program: `--` is missing before it", needs
        ) from error
