"""Which flags of an nvcc command shape the device code of one kernel, and which must not be obeyed.

nvcc makes one shell command of each of its steps and puts most arguments between double quotes: what a shell
would expand there, it expands. Words that could mean anything to a shell are left out, as are flags that
load or run somebody's code: a build folder is data.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerncap_stages.source.flag_paths import absolute, absolute_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from kerncap_stages.source.compile_commands import CompileCommand


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Outputs, phases, GPU targets, relocatable device code, the host's link: this rebuild sets its own.
_DROPPED = frozenset(
    _words(
        """
        -c --compile -dc --device-c -dw --device-w -dlink --device-link -link --link -lib --lib -run --run
        -cubin --cubin -ptx --ptx -fatbin --fatbin -ltoir --ltoir -optix-ir --optix-ir -cuda --cuda -E
        --preprocess -M --generate-dependencies -MM --generate-nonsystem-dependencies -MD
        --generate-dependencies-with-compile -MMD --generate-nonsystem-dependencies-with-compile -MP
        --generate-dependency-targets -shared --shared -v --verbose -dryrun --dryrun -keep --keep -save-temps
        --save-temps -clean --clean-targets -dlto --dlink-time-opt -lto --lto -gen-opt-lto --gen-opt-lto
        -nodlink --no-device-link -objtemp --objdir-as-tempdir -r --relocatable-link -ewp
        --extensible-whole-program -res-usage --resource-usage -jobserver --jobserver -aug-hls
        --augment-host-linker-script -reloc-ptx --relocatable-ptx -astoolspatch --compile-as-tools-patch
        -code-ls --list-gpu-code -arch-ls --list-gpu-arch -h --help -V --version --use-local-env
        -use-local-env -forward-unknown-to-host-linker --forward-unknown-to-host-linker
        """
    )
)
_DROPPED_WITH_VALUE = frozenset(
    _words(
        """
        -o --output-file -MF --dependency-output -MT --dependency-target-name -MQ -odir --output-directory
        -arch --gpu-architecture -code --gpu-code -gencode --generate-code -rdc --relocatable-device-code -x
        --x -l --library -L --library-path -Xlinker --linker-options -Xnvlink --nvlink-options -Xarchive
        --archive-options -Xfatbinary --fatbin-options -keep-dir --keep-dir -time --time -t --threads
        -split-compile --split-compile -split-compile-extended --split-compile-extended -fdevice-time-trace
        --fdevice-time-trace -run-args --run-args -cudart --cudart -cudadevrt --cudadevrt -hls
        --host-linker-script -e --entries -ddp --dependency-drive-prefix -idp --input-drive-prefix -dp
        --drive-prefix
        """
    )
)
# They name programs, or code that nvcc links into the kernel.
_UNSAFE_WITH_VALUE = frozenset(
    _words(
        """
        -ccbin --compiler-bindir -ldir --libdevice-directory -target-dir --target-directory -arbin
        --archiver-binary -qpp-config --qpp-config
        """
    )
)
_PASSED_ON = {
    **dict.fromkeys(("-Xcompiler", "--compiler-options"), "-Xcompiler"),
    **dict.fromkeys(("-Xptxas", "--ptxas-options"), "-Xptxas"),
    **dict.fromkeys(("-Xcudafe", "--cudafe-options"), "-Xcudafe"),
    **dict.fromkeys(("-Xcicc", "--cicc-options"), "-Xcicc"),
}
_MACROS = {"-D": "-D", "--define-macro": "-D", "-U": "-U", "--undefine-macro": "-U"}
_PATHS = {
    **dict.fromkeys(("-I", "--include-path"), "-I"),
    **dict.fromkeys(("-isystem", "--system-include"), "-isystem"),
    **dict.fromkeys(("-include", "--pre-include"), "-include"),
}
_KEPT_WITH_VALUE = frozenset(
    _words(
        """
        -std --std -O --optimize -Ofc --Ofast-compile -dopt --dopt
        -maxrregcount --maxrregcount -ftz --ftz -prec-div --prec-div -prec-sqrt --prec-sqrt -fmad --fmad -m
        --machine -default-stream --default-stream -Werror --Werror -diag-error --diag-error -diag-suppress
        --diag-suppress -diag-warn --diag-warn -ftemplate-depth --ftemplate-depth -frandom-seed
        --frandom-seed -opt-info --optimization-info -static-global-template-stub
        --static-global-template-stub -device-entity-has-hidden-visibility
        --device-entity-has-hidden-visibility -jtd --jump-table-density -sanitize --sanitize
        -ftemplate-backtrace-limit --ftemplate-backtrace-limit -brief-diag --brief-diagnostics
        -device-stack-protector --device-stack-protector -compress-mode --compress-mode
        """
    )
)
_WITH_VALUE = (
    *(_DROPPED_WITH_VALUE | _UNSAFE_WITH_VALUE | _KEPT_WITH_VALUE),
    *(*_PASSED_ON, *_MACROS, *_PATHS),
)
_JOINED = ("-I", "-D", "-U", "-O", "-l", "-L")  # that take their value without a space or `=`
_NOT_JOINED = frozenset({"-lineinfo"})
_HOST_COMPILER = re.compile(r"([\w.]+-)*(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(-\d+(\.\d+)*)?")
_EXPANDED_IN_QUOTES = re.compile(r"[$`\n]")
_PLAIN = re.compile(r"[\w./,:=+@%-]*")
_UNSAFE_PASSED_ON = (
    *("-B", "-fplugin", "-wrapper", "-specs", "--specs", "-load", "@", "-o", "--output", "-M", "-save-temps"),
    *("-Wp,", "-Wa,", "-fuse-ld", "-dump"),
)
_LIST = re.compile(r"(?<!\\),")


def nvcc_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """The flags that shape device code: paths made absolute, ``-I`` and ``-isystem`` in their short forms.

    Left out: the compiler, inputs, outputs, GPU targets, and what ``unsafe_nvcc_flags`` names.
    ``defines`` are added as ``-D``.
    """
    kept: list[str] = []
    for name, value, word in _options(command.arguments[1:]):
        if not _is_unsafe(name, value, word):
            kept += _shaping(name, value, word, command.directory)
    return (*kept, *(f"-D{define}" for define in defines if not shell_reads(define)))


def unsafe_nvcc_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """Flags that a shell would expand, or that run or load code: they are never passed on."""
    options = [word for name, value, word in _options(command.arguments[1:]) if _is_unsafe(name, value, word)]
    return (*options, *(f"-D{define}" for define in defines if shell_reads(define)))


def shell_reads(word: str) -> bool:
    """Whether a shell would expand something in a word although it is between double quotes."""
    return _EXPANDED_IN_QUOTES.search(word) is not None


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """(name, value, as written) of each flag; inputs have no name."""
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, joined = word.partition("=")
        if not word.startswith("-"):
            yield "", word, word
        elif equals and name in _WITH_VALUE:
            yield name, joined, word
        elif word in _WITH_VALUE and words:
            value = words.pop(0)
            yield word, value, f"{word} {value}"
        elif (short := word[:2]) in _JOINED and len(word) > 2 and word not in _NOT_JOINED:
            yield short, word[2:], word
        else:
            yield word, None, word


def _is_dropped(name: str, word: str) -> bool:
    return not name or name in _DROPPED or name in _DROPPED_WITH_VALUE or word.startswith("-Wl,")


def _is_unsafe(name: str, value: str | None, word: str) -> bool:
    if _is_dropped(name, word):
        return False
    if shell_reads(word):
        return True
    if name in _UNSAFE_WITH_VALUE:
        return not (name in ("-ccbin", "--compiler-bindir") and value and _is_host_compiler(value))
    if name in _PASSED_ON:
        parts = _LIST.split(value or "")
        return any(not _PLAIN.fullmatch(part) or part.startswith(_UNSAFE_PASSED_ON) for part in parts)
    if value is None:  # nvcc may hand it to the host's compiler, without quotes
        return not _PLAIN.fullmatch(word) or word.startswith(_UNSAFE_PASSED_ON)
    return False


def _is_host_compiler(path: str) -> bool:
    return bool(_PLAIN.fullmatch(path) and _HOST_COMPILER.fullmatch(path.rpartition("/")[2]))


def _shaping(name: str, value: str | None, word: str, directory: Path) -> tuple[str, ...]:
    if _is_dropped(name, word):
        return ()
    if name in _PATHS:
        short = _PATHS[name]
        paths = [absolute_for(short, path, directory) for path in _LIST.split(value or "")]
        return tuple(each for path in paths for each in ((f"-I{path}",) if short == "-I" else (short, path)))
    if name in _PASSED_ON:
        return (f"{_PASSED_ON[name]}={_passed_on(value or '', directory)}",)
    if name in ("--compiler-bindir", "-ccbin"):
        return (f"-ccbin={value}",)
    if name in _MACROS:
        return (f"{_MACROS[name]}{value}",)
    return (word,) if value is None or word.startswith(f"{name}=") or name in _JOINED else (name, value)


def _passed_on(value: str, directory: Path) -> str:
    """The host compiler's own include folders are relative to the build's folder too."""
    parts = _LIST.split(value)
    for i, part in enumerate(parts):
        if part.startswith("-I") and len(part) > 2:
            parts[i] = "-I" + absolute(part[2:], directory)
        elif i and parts[i - 1] in ("-I", "-isystem", "-iquote", "-idirafter", "-include"):
            parts[i] = absolute_for(parts[i - 1], part, directory)
    return ",".join(parts)
