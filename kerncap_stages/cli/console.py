"""The frame of every executable.

Results go to standard output, messages to standard error. Errors become text and exit codes here and nowhere
else. Rich is imported on first use only, so that ``--help`` and a stage in a pipe start fast.
"""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import sys
import traceback
from itertools import pairwise
from typing import TYPE_CHECKING, NoReturn

from kerncap_stages import __version__
from kerncap_stages.cli.store_option import add_store_option
from kerncap_stages.errors import DeviceError, ExitCode, KerncapError, UsageError
from kerncap_stages.manifests import dump
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer
    from rich.console import Console

    from kerncap_stages.digest import Digest
    from kerncap_stages.manifests.base import Manifest

EXIT_CODES = """\
Exit codes: 0 done; 1 the answer is no; 2 wrong usage; 3 artifact or store
missing or damaged; 4 toolchain, device or system failed; 5 the program under
capture failed; 6 refused; 70 a bug of kerncap-stages; 128 + N ended by signal
N."""

# sysexits.h EX_SOFTWARE. Python's own code for an uncaught exception is 1, which here is an answer.
_OUR_FAULT = 70

_FREE_SPACE = "free space where this writes to, and run it again"
_FREE_SPACE_THERE = "free space there, and run it again; temporary files go to the folder that TMPDIR names"
_ANOTHER_PLACE = "name a place that you may use"
_NEXT_STEPS = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EACCES: _ANOTHER_PLACE,
    errno.EPERM: _ANOTHER_PLACE,
    errno.EROFS: _ANOTHER_PLACE,
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EMFILE: "`ulimit -n 4096`, and run it again",
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f unlimited`), and run it again",
    errno.ENOMEM: "close other programs, or use a machine with more memory",
}
# Options that users look for in a stage that has none such, and the stage that has.
_COMPARE = "`kc-replay PROJECT --compare FILE` times a variant and the captured kernel in turn"
_JUDGE = "`kc-validate PROJECT` judges outputs, within bounds if some are given"
_OPTIONS_OF_OTHERS = {
    **dict.fromkeys(
        [("kc-validate", each) for each in ("--compare", "--iterations", "-n", "--warmup", "--flush-cache")],
        _COMPARE,
    ),
    **dict.fromkeys([("kc-replay", each) for each in ("--tolerance", "--rtol", "--ulp", "--quick")], _JUDGE),
}
# Options that name files and artifacts. An empty path would be the working folder.
_NAMING = {
    "--variant",
    "--report",
    "--reference",
    "--output",
    "--source-dir",
    "--compile-commands",
    "--lines",
    "--capture",
    "--held-out",
    "--expect-capture",
}
_unprinted: list[Digest] = []  # artifacts made while standard output is closed


def make_epilog(example: str, exit_codes: str = EXIT_CODES) -> str:
    """Return the text below the options in ``--help``: an example, and the exit codes."""
    # A backspace keeps typer from refilling the lines of a paragraph.
    return f"\b\nExample:\n{_indent(example)}\n\n\b\n{exit_codes}"


def run(app: typer.Typer, program: tuple[str, ...] | None = None) -> NoReturn:
    """Run a typer application and exit with its code. The only place that catches KerncapError.

    program: the program's command after ``--``; the application's commands read it as ``context.obj``.
    """
    # Imports make many objects that live until the process ends. Scanning them again and again would take a
    # tenth of the time of a short command.
    gc.set_threshold(200_000)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # A name that the terminal's encoding lacks must not end a stage.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if sys.stdin is not None:
        sys.stdin.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]
    ended_by: list[signal.Signals] = []
    try:
        _interrupt_on_request(ended_by)
        # If the caller ignores SIGCHLD, a child's exit status is lost: a crash would look like success.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _fill_closed_descriptors()
        _refuse_empty_values(sys.argv[1:])
        code = app(standalone_mode=False, obj=program)
        _flush()
        _require_printed()
    except SystemExit as leaving:
        # If the reader of the pipe is gone, typer calls sys.exit(1). Here 1 means that the answer is no.
        if isinstance(leaving.__context__, BrokenPipeError):
            _end_by(signal.SIGPIPE)
        raise
    except BrokenPipeError:
        _end_by(signal.SIGPIPE)
    except KeyboardInterrupt:
        _end_by(ended_by[-1] if ended_by else signal.SIGINT)
    except Exception as error:
        if ended_by and not isinstance(error, KerncapError):
            _end_by(ended_by[-1])  # native code such as pydantic's turns an interrupt into its own error
        code = report(error)
        _drop_unwritable_output()
        sys.exit(code)
    finally:
        # Only Python's own shutdown is left, and nothing must be undone: an interrupt may just end it.
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        # It would look for garbage among all objects, which takes a third as long as to import them.
        gc.freeze()
    if code == 128 + signal.SIGINT:  # typer turns KeyboardInterrupt into this code
        _end_by(ended_by[-1] if ended_by else signal.SIGINT)
    sys.exit(int(code or ExitCode.DONE))


def _refuse_empty_values(words: Sequence[str]) -> None:
    """Raise UsageError for an option that names something by an empty text, as from an unset variable."""
    values = [(word, after) for word, after in pairwise(words) if "=" not in word]
    values += [(name, value) for name, equals, value in (word.partition("=") for word in words) if equals]
    for option, value in values:
        if option in _NAMING and not value:
            raise UsageError(
                f"{option} needs a value, not an empty text", hint="a variable of the script may be unset"
            )


def report(error: Exception) -> int:
    """Write an error to standard error; returns its exit code."""
    program = os.path.basename(sys.argv[0])  # noqa: PTH119 - pathlib is not needed for this
    if isinstance(error, KerncapError):
        say_error(program, str(error), error.hint)
        return error.exit_code
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):  # typer's error of usage
        context = getattr(error, "ctx", None)  # of the command whose arguments are wrong
        command = program if context is None else context.command_path
        other = _OPTIONS_OF_OTHERS.get((command, getattr(error, "option_name", "")))
        say_error(
            program,
            _reword(error.format_message() if other is None else str(error).partition(" (Possible")[0]),
            other or f"`{command} --help` shows the arguments and an example",
        )
        return ExitCode.USAGE
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        say_error(program, where + (error.strerror or str(error)), _choose_next_step(error))
        return ExitCode.DEVICE
    say_error(
        program,
        f"{type(error).__name__}: {error}",
        "this is a bug of kerncap-stages: report it with the text below",
    )
    say(make_printable("".join(traceback.format_exception(error)), keep_lines=True))
    return _OUR_FAULT


def _choose_next_step(error: OSError) -> str | None:
    step = _NEXT_STEPS.get(error.errno or 0)
    return _FREE_SPACE_THERE if step == _FREE_SPACE and error.filename is not None else step


def _reword(message: str) -> str:
    """Put a message of the parser in plain words: it says `int range` and `1<=x<=5`."""
    message = re.sub(r"is not a valid int(?:eger)?(?: range)?\b", "is not a whole number", message)
    message = re.sub(r"is not a valid float(?: range)?\b", "is not a number", message)
    return re.sub(r"is not in the range (\S+?)\.?$", lambda found: _describe_range(found[1]), message)


def _describe_range(text: str) -> str:
    found = re.fullmatch(r"(?:(.+)<=)?x(?:<=(.+))?|x>=(.+)", text)
    least, most = ("", "") if found is None else (found[1] or found[3], found[2])
    if least and most:
        return f"is out of range: from {least} to {most}"
    if least:
        return f"is too small: at least {least}"
    return f"is too large: at most {most}" if most else f"is not in the range {text}"


def say(line: str = "") -> None:
    """Write a line to standard error; does nothing if that is closed or cannot be written.

    The line is a single write even under ``PYTHONUNBUFFERED``: the user's program may write there too.
    """
    if sys.stderr is not None:
        try:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        except OSError:
            sys.stderr = None


def say_error(program: str, message: str, hint: str | None) -> None:
    """Write an error and the next step. Further lines are indented, so that a name cannot forge a message."""
    say(f"{program}: error: " + _indent(make_printable(message, keep_lines=True)).lstrip())
    if hint:
        hint = add_store_option(hint)
        say("  next: " + _indent(make_printable(hint, keep_lines=True)).lstrip())


def emit(digest: Digest, manifest: Manifest | bytes | None = None) -> None:
    """Write one line for an artifact to standard output: its digest, or its manifest if that is given.

    manifest: for ``--json``; the model, or the stored bytes.
    Raises BrokenPipeError if the reader of the pipe is gone; standard error has the digest then.
    """
    if sys.stdout is None:
        _unprinted.append(digest)
        return
    text = f"{digest}\n"
    if isinstance(manifest, bytes):
        text = manifest.decode()
    elif manifest is not None:
        text = dump(manifest).decode()
    try:
        print(text, end="", flush=True)
    except BrokenPipeError:
        say_error(
            os.path.basename(sys.argv[0]),  # noqa: PTH119 - pathlib is not needed for this
            f"{digest} was made, but the program that reads standard output has ended",
            "`kc-show` with that digest shows it",
        )
        raise
    except OSError as error:
        raise DeviceError(
            f"{digest} was made, but its digest cannot be written to standard output: {error.strerror}",
            hint="`kc-show` with that digest shows it",
        ) from error


def open_messages(log_width: int | None = None) -> Console:
    """Return a console on standard error. It does not interpret markup.

    log_width: where standard error is not a terminal and COLUMNS is not set; None: rich's, which is 80.
    """
    # Messages of one line need no rich.
    from rich.console import Console

    console = Console(stderr=True, markup=False, highlight=False, emoji=False)
    if log_width is not None and not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = log_width
    return console


def open_page() -> Console:
    """Return a console on standard output, for executables whose result is a page. No markup either.

    Raises UsageError if standard output is closed.
    """
    require_output()
    # Digests are printed without rich.
    from rich.console import Console

    return Console(markup=False, highlight=False, emoji=False)


def require_output() -> None:
    """Raise UsageError if standard output is closed: the result goes there."""
    if sys.stdout is None:
        raise UsageError("standard output is closed", hint="redirect it to a file, or pipe it into a program")


def format_version(program: str) -> str:
    """Return the answer to ``--version``."""
    return f"{program} (kerncap-stages) {__version__}"


def _indent(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop_unwritable_output() -> None:
    """Discard output that cannot be written. Python would retry at exit, and end with exit code 120."""
    try:
        _flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt_on_request(came: list[signal.Signals]) -> None:
    """Treat SIGTERM and SIGHUP like Ctrl-C: unfinished work is undone, and programs are ended.

    Adds each signal that arrives to ``came``.
    """

    def interrupt(number: int, _frame: object) -> None:
        came.append(signal.Signals(number))
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores it
            signal.signal(number, interrupt)
    # launch.py set the system's own action.
    if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(signal.SIGINT, interrupt)


def _fill_closed_descriptors() -> None:
    """Open /dev/null for each standard stream that the caller closed (`>&-`).

    Otherwise a file that a stage opens would get the number of a standard stream.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:  # open returns the lowest free number
        os.set_inheritable(fd, True)
    os.close(fd)


def _require_printed() -> None:
    """Raise DeviceError if artifacts were made whose digests could not be printed."""
    if _unprinted:
        raise DeviceError(
            f"standard output is closed, so the digest could not be printed: {' '.join(_unprinted)}",
            hint="`kc-show` with that digest shows it; redirect standard output to a file, or to /dev/null",
        )


def _end_by(number: signal.Signals) -> NoReturn:
    """End as if by the signal: a shell then sees 128 + N, and stops its loop on Ctrl-C."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # the signal was blocked
