"""Decides which flags of an nvcc command affect the device code of one kernel, and which are unsafe.

Only words that are known to affect code are kept (``nvcc_words``): a build folder may come from anybody.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.compilers.compile_commands import lies_in_build
from kerncap_stages.compilers.flag_paths import make_absolute, make_absolute_for
from kerncap_stages.compilers.nvcc_words import (
    HOST_FOLDERS,
    is_host_word,
    is_macro,
    is_path,
    is_unquoted_path,
    is_value,
    may_be_passed_on,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kerncap_stages.compilers.compile_commands import CompileCommand


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Outputs, phases, GPU targets, relocatable device code, the host's link: the rebuild sets its own.
_DROPPED = frozenset(
    _split_words(
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
    _split_words(
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
# Flags that name programs, or code that nvcc links into the kernel.
_UNSAFE_WITH_VALUE = frozenset(
    _split_words(
        """
        -ldir --libdevice-directory -target-dir --target-directory -arbin --archiver-binary -qpp-config
        --qpp-config
        """
    )
)
# Device code that is compiled to be linked. The build's spelling is replaced by this flag.
SEPARATE = "-rdc=true"
_SEPARATE_ALONE = frozenset({"-dc", "--device-c"})
_SEPARATE_WITH_VALUE = frozenset({"-rdc", "--relocatable-device-code"})
_HOST_COMPILER_FLAGS = ("-ccbin", "--compiler-bindir")
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
    _split_words(
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
_KEPT_ALONE = frozenset(
    _split_words(
        """
        -g --debug -G --device-debug -pg --profile -lineinfo --generate-line-info -use_fast_math
        --use_fast_math -extra-device-vectorization --extra-device-vectorization -restrict --restrict -w
        --disable-warnings -noeh --no-exceptions -nohdinitlist --no-host-device-initializer-list
        -nohdmoveforward --no-host-device-move-forward -expt-relaxed-constexpr --expt-relaxed-constexpr
        -extended-lambda --extended-lambda -expt-extended-lambda --expt-extended-lambda -m64 --m64
        -forward-unknown-to-host-compiler --forward-unknown-to-host-compiler -forward-unknown-opts
        --forward-unknown-opts -allow-unsupported-compiler --allow-unsupported-compiler
        -keep-device-functions --keep-device-functions -src-in-ptx --source-in-ptx --no-align-double
        -no-compress --no-compress -err-no --display-error-number -no-err-no --no-display-error-number
        --Wreorder --Wdefault-stream-launch --Wmissing-launch-bounds --Wext-lambda-captures-this
        --Wno-deprecated-declarations --Wno-deprecated-gpu-targets
        """
    )
)
_WITH_VALUE = (
    *(_DROPPED_WITH_VALUE | _UNSAFE_WITH_VALUE | _KEPT_WITH_VALUE),
    *(*_PASSED_ON, *_MACROS, *_PATHS, *_HOST_COMPILER_FLAGS),
)
_JOINED = ("-I", "-D", "-U", "-O", "-l", "-L")  # flags that take their value without a space or `=`
_NOT_JOINED = frozenset({"-lineinfo"})
_HOST_COMPILER = re.compile(r"([\w.]+-)*(gcc|g\+\+|cc|c\+\+|clang|clang\+\+)(-\d+(\.\d+)*)?")
_LIST = re.compile(r"(?<!\\),")


def keep_shaping_nvcc_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the flags that affect device code: with absolute paths, ``-I`` and ``-isystem`` in short form.

    Left out are the compiler, inputs, outputs, GPU targets, and what ``find_unsafe_nvcc_flags`` returns.
    ``defines`` are added as ``-D``.
    """
    kept: list[str] = []
    if _is_separate(command):
        kept.append(SEPARATE)
    for name, value, word in _parse_options(command.arguments[1:]):
        if not _is_unsafe(name, value, word, command):
            kept += _keep_shaping(name, value, word, command.directory)
    return (*kept, *(f"-D{define}" for define in defines if is_macro(define)))


def _is_separate(command: CompileCommand) -> bool:
    """Whether device code is compiled to be linked: the last of these flags is used, as by nvcc."""
    separate = False
    for name, value, _ in _parse_options(command.arguments[1:]):
        if name in _SEPARATE_WITH_VALUE:
            separate = value == "true"
        elif name in _SEPARATE_ALONE:
            separate = True
    return separate


def find_unsafe_nvcc_flags(command: CompileCommand, defines: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the flags that may do more than affect code: a shell may read them, or they may write files."""
    options = _parse_options(command.arguments[1:])
    unsafe = [word for name, value, word in options if _is_unsafe(name, value, word, command)]
    return (*unsafe, *(f"-D{define}" for define in defines if not is_macro(define)))


def find_dropped_nvcc_flags(command: CompileCommand) -> tuple[str, ...]:
    """Return the flags and inputs that are left out because a rebuild of one kernel sets its own."""
    return tuple(word for name, _, word in _parse_options(command.arguments[1:]) if _is_dropped(name, word))


def _parse_options(arguments: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """Yield (name, value, original text) of each flag; inputs have no name."""
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


def _is_unsafe(name: str, value: str | None, word: str, command: CompileCommand) -> bool:
    if _is_dropped(name, word):
        return False
    text = value or ""
    if name in _PATHS:
        return not all(is_path(path) for path in _make_absolute_paths(name, text, command.directory))
    if name in _MACROS:
        return not is_macro(text)
    if name in _PASSED_ON:
        return not may_be_passed_on(_PASSED_ON[name], _split_passed_on(text, command.directory))
    if name in _HOST_COMPILER_FLAGS:
        return not _may_run(text, command)
    if name in _KEPT_WITH_VALUE:
        return not is_value(text)
    return word not in _KEPT_ALONE and not is_host_word(word)


def _may_run(host_compiler: str, command: CompileCommand) -> bool:
    """Whether a host compiler may be run: it must not come from the build's folder."""
    name = host_compiler.rpartition("/")[2]
    path = Path(make_absolute(host_compiler, command.directory))
    if not is_unquoted_path(str(path)) or not _HOST_COMPILER.fullmatch(name):
        return False
    if lies_in_build(host_compiler, command):
        return False
    if not command.compiler_is_given or name == host_compiler:
        return True
    found = shutil.which(name)
    return found is not None and os.path.realpath(found) == os.path.realpath(path)


def _keep_shaping(name: str, value: str | None, word: str, directory: Path) -> tuple[str, ...]:
    if _is_dropped(name, word):
        return ()
    if name in _PATHS:
        short, paths = _PATHS[name], _make_absolute_paths(name, value or "", directory)
        return tuple(each for path in paths for each in ((f"-I{path}",) if short == "-I" else (short, path)))
    if name in _PASSED_ON:
        return (f"{_PASSED_ON[name]}={','.join(_split_passed_on(value or '', directory))}",)
    if name in _HOST_COMPILER_FLAGS:
        path = value or ""
        return (f"-ccbin={make_absolute(path, directory) if '/' in path else path}",)
    if name in _MACROS:
        return (f"{_MACROS[name]}{value}",)
    return (word,) if value is None or word.startswith(f"{name}=") or name in _JOINED else (name, value)


def _make_absolute_paths(name: str, value: str, directory: Path) -> list[str]:
    return [make_absolute_for(_PATHS[name], path, directory) for path in _LIST.split(value)]


def _split_passed_on(value: str, directory: Path) -> list[str]:
    """Split words that are passed on, and make their paths absolute."""
    parts = _LIST.split(value)
    for i, part in enumerate(parts):
        if part.startswith("-I") and len(part) > 2:
            parts[i] = "-I" + make_absolute(part[2:], directory)
        elif i and parts[i - 1] in HOST_FOLDERS:
            parts[i] = make_absolute_for(parts[i - 1], part, directory)
    return parts
