"""Which words of an nvcc command are known to shape code and to do nothing else.

nvcc makes a shell command of each of its steps. It puts most values between double quotes and escapes few
characters in them; others it does not quote at all. And the host's compiler, ptxas and cicc have options that
load code or write files. So a word is passed on only if it is one of these; docs/decisions/0030.
"""

from __future__ import annotations

import re

# Between nvcc's double quotes: nothing that a shell reads there, and no quote. What begins with @ is a
# response file to GCC, wherever it stands.
_QUOTED_PATH = re.compile(r"(?!@)[\w./,:=+@%~ -]+")
# In no quotes.
_PATH = re.compile(r"(?!@)[\w./:=+@%-]+", re.ASCII)
_VALUE = re.compile(r"\w[\w.+,:-]*", re.ASCII)
# nvcc escapes the quotes of a macro, and drops or keeps backslashes as it likes.
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
    """Whether a path may stand in an nvcc command, as a file or in a flag for include folders."""
    return _QUOTED_PATH.fullmatch(text) is not None


def is_unquoted_path(text: str) -> bool:
    """Whether a path may stand where nvcc puts no quotes."""
    return _PATH.fullmatch(text) is not None


def is_value(text: str) -> bool:
    """Whether a value is made of words and numbers: it names no file, and a shell reads nothing in it."""
    return _VALUE.fullmatch(text) is not None


def is_macro(text: str) -> bool:
    """Whether ``NAME``, ``NAME=text`` or ``NAME(arguments)=text`` may stand behind ``-D``."""
    return _MACRO.fullmatch(text) is not None and _MACRO_TEXT.fullmatch(text) is not None


def is_host_word(word: str) -> bool:
    """Whether the host's compiler may be given a word, alone."""
    return _HOST_WORD.fullmatch(word) is not None


def may_be_handed_on(option: str, parts: list[str]) -> bool:
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
