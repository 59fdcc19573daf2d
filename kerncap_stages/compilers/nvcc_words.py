"""Lists the words of an nvcc command that are known to affect code and to do nothing else.

nvcc runs a shell command for each of its steps. It puts most values between double quotes but escapes few
characters in them; other values it does not quote. And the host's compiler, ptxas and cicc have options that
load code or write files. So a word is passed on only if it is one of these: docs/decisions/0030.
"""

from __future__ import annotations

import re

# A path between nvcc's double quotes: no character that a shell interprets there, and no quote. GCC reads any
# word that begins with @ as a response file.
_QUOTED_PATH = re.compile(r"(?!@)[\w./,:=+@%~ -]+")
# A path without quotes.
_PATH = re.compile(r"(?!@)[\w./:=+@%-]+", re.ASCII)
_VALUE = re.compile(r"\w[\w.+,:-]*", re.ASCII)
# nvcc escapes the quotes of a macro, and handles its backslashes inconsistently.
_MACRO = re.compile(r"[A-Za-z_]\w*(?:\([\w,. ]*\))?(?:=.*)?", re.ASCII)
_MACRO_TEXT = re.compile(r"[\w ./,:;=+@%()*<>&|!~^?\[\]{}'#-]*|[\w ./,:=+@%()\[\]{}\"-]*")

_HOST_WORD = re.compile(
    r"""-(?: O(?:[0-3sgz]|fast)? | w | p | pg | pthread | pipe | ansi | undef | pedantic(?:-errors)?
    | nostdinc(?:\+\+)? | std(?:lib)?=[\w+:]+ | g(?!split)[\w-]* | W[\w+-]+(?:=[\w-]+)?
    | [DU]\w+(?:=[\w./:+@%-]*)? | m(?!llvm)[\w.+-]+(?:=[\w.,+-]+)?
    | f(?!dump|plugin|pass-|profile|auto-profile|save|test-coverage|branch-prob|callgraph|stack-usage|opt-info
       |record|time-|crash|compare|module|lto|working)[\w+-]+
    | f(?:template-depth|constexpr-[a-z-]+|(?:no-)?sanitize|visibility|fp-contract|abi-(?:compat-)?version
       |max-errors|message-length|diagnostics-color|cf-protection|tls-model|strict-flex-arrays
       |excess-precision|inline-limit|no-builtin|zero-call-used-regs|trivial-auto-var-init|exec-charset
       |wide-exec-charset|input-charset)=[\w.,+-]+
    )""",
    re.ASCII | re.VERBOSE,
)
HOST_FOLDERS = ("-I", "-isystem", "-iquote", "-idirafter", "-include")
_PTXAS_WORD = re.compile(
    r"""-(?: v | w | g | O\d?
    | -?(?:verbose|disable-warnings|warn-(?:on-)?[a-z-]+|Werror|warning-as-error|generate-line-info|lineinfo
       |device-debug|return-at-end|preserve-relocs|disable-optimizer-constants|suppress-[a-z-]+)
    | -?(?:opt-level|maxrregcount|fmad|dlcm|dscm|(?:def|force)-(?:load|store)-cache
       |allow-expensive-optimizations|fastimul|cloning|abi|position-independent-code|register-usage-level
       |device-function-maxrregcount|sp-bounds-check|extra-opt)=\w+
    )|\d+""",
    re.ASCII | re.VERBOSE,
)
_FRONT_END_WORD = re.compile(
    r"--(?:display_error_number|no_display_error_number|promote_warnings|no_warnings|no_wrap_diagnostics"
    r"|wrap_diagnostics|brief_diagnostics|remarks|error_limit=\d+"
    r"|diag_(?:suppress|error|warning|remark|once|default)=\w+)|\w+",  # a list's further members
    re.ASCII,
)
_CICC_WORD = re.compile(r"-O[0-3]|--?(?:ftz|fma|fmad|prec[_-]div|prec[_-]sqrt)=[01]", re.ASCII)
_KNOWN = {"-Xptxas": _PTXAS_WORD, "-Xcudafe": _FRONT_END_WORD, "-Xcicc": _CICC_WORD}


def is_path(text: str) -> bool:
    """Whether a path is safe in an nvcc command, as a file or in a flag for include folders."""
    return _QUOTED_PATH.fullmatch(text) is not None


def is_unquoted_path(text: str) -> bool:
    """Whether a path is safe where nvcc adds no quotes."""
    return _PATH.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether a value consists of words and numbers: it names no file, and no shell interprets it."""
    return _VALUE.fullmatch(text) is not None


def is_macro(text: str) -> bool:
    """Whether ``NAME``, ``NAME=text`` or ``NAME(arguments)=text`` is safe after ``-D``."""
    return _MACRO.fullmatch(text) is not None and _MACRO_TEXT.fullmatch(text) is not None


def is_host_word(word: str) -> bool:
    """Whether a single word may be passed to the host's compiler."""
    return _HOST_WORD.fullmatch(word) is not None


def may_be_passed_on(option: str, parts: list[str]) -> bool:
    """Whether the words of ``-Xcompiler``, ``-Xptxas``, ``-Xcudafe`` or ``-Xcicc`` are all known."""
    if option in _KNOWN:
        return all(_KNOWN[option].fullmatch(part) for part in parts)
    remaining = iter(parts)
    for part in remaining:
        if part in HOST_FOLDERS:
            known = is_unquoted_path(next(remaining, ""))
        elif part.startswith("-I"):
            known = is_unquoted_path(part[2:])
        else:
            known = is_host_word(part)
        if not known:
            return False
    return True
