"""``kc-root``: the command line. It uses argparse, because it must run before anything is installed."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages import __version__
from kerncap_stages.errors import ExitCode, KerncapError, UsageError
from kerncap_stages.rocm_root import build, cache, enter, image, namespaces
from kerncap_stages.rocm_root.recipes import DEFAULT_ROCM, RECIPES

if TYPE_CHECKING:
    from collections.abc import Sequence

_DESCRIPTION = """\
ROCm in a root file system of its own, for machines without ROCm: ROCr, HIP, clang, Python.
kc-root makes the root once and keeps it in KERNCAP_ROOT_CACHE, else in the user's cache folder.

example: kc-root run -- hipcc --version
"""
_EPILOG = """\
exit codes: 0 done; 2 wrong usage; 4 a step failed; 6 this machine cannot make or enter roots; `run` returns
the command's exit code"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the executable."""
    options = _make_parser().parse_args(arguments)
    try:
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # launch.py set it
            signal.signal(signal.SIGINT, signal.default_int_handler)
        options.work(options)
    except KerncapError as error:
        print(f"kc-root: {error}", file=sys.stderr)
        if error.hint:
            print(f"  next: {error.hint}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(ExitCode.DONE)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kc-root", description=_DESCRIPTION, epilog=_EPILOG,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--version", action="version", version=f"%(prog)s (kerncap-stages) {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument(
        "--rocm",
        choices=list(RECIPES),
        default=DEFAULT_ROCM,
        help="ROCm version (default: 6.4); none: Debian 12 without ROCm, for building wheels",
    )
    which.add_argument(
        "--with",
        dest="layers",
        action="append",
        default=[],
        metavar="LAYER",
        help="add a layer of packages: llama.cpp, library-tests, blas, hipcub, slurm; with 7.2: frameworks",
    )
    source = argparse.ArgumentParser(add_help=False)
    source.add_argument(
        "--mirror",
        metavar="URL",
        help="Debian archive (default: KERNCAP_ROOT_MIRROR, else the machine's own)",
    )

    verb = verbs.add_parser(
        "make", parents=[which, source], help="make a root if it does not exist; print its folder"
    )
    verb.set_defaults(work=_make)
    verb = verbs.add_parser(
        "run", parents=[which, source], help="run a command in a root; make the root if it does not exist"
    )
    verb.add_argument(
        "--bind",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="make this path visible in the root, too",
    )
    verb.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD ...", help="the command and its arguments"
    )
    verb.set_defaults(work=_run)
    verb = verbs.add_parser("list", help="list the roots in the cache, with their sizes")
    verb.set_defaults(work=_list)
    verb = verbs.add_parser("versions", parents=[which], help="print the packages of a root, as JSON")
    verb.set_defaults(work=_print_versions)
    verb = verbs.add_parser("rm", help="remove roots from the cache")
    verb.add_argument("keys", nargs="*", metavar="KEY", help="a root's key from `list`, or its beginning")
    verb.add_argument("--all", action="store_true", help="remove every root")
    verb.add_argument(
        "--stale", action="store_true", help="remove roots that this version of kc-root would not make"
    )
    verb.set_defaults(work=_remove)
    verb = verbs.add_parser(
        "containerfile", parents=[which], help="print a Containerfile that makes the same root"
    )
    verb.set_defaults(
        work=lambda options: print(image.make_containerfile(options.rocm, options.layers), end="")
    )
    return parser


def _make(options: argparse.Namespace) -> None:
    print(build.ensure(options.rocm, options.layers, mirror=options.mirror).files)


def _run(options: argparse.Namespace) -> None:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    command = command or ["/bin/bash"]
    if image.is_inside(options.rocm, options.layers):
        enter.run_here(command)
    enter.run(
        build.ensure(options.rocm, options.layers, mirror=options.mirror), command, folders=options.bind
    )


def _list(_options: argparse.Namespace) -> None:
    current = _list_current_keys()
    for root in cache.list_roots():
        # Inside a root, the machine's folders are mounted below its files.
        others = [f"--exclude={place}" for place in namespaces.list_mounts_below(root.files)]
        size = subprocess.run(
            ["/usr/bin/du", "-sh", *others, str(root.files)], capture_output=True, text=True, check=False
        ).stdout.split()
        state = "" if root.key in current else "stale"
        print(
            f"{root.key:40} {size[0] if size else '?':>6} {root.read_versions()['made_at']} {state}".rstrip()
        )


def _print_versions(options: argparse.Namespace) -> None:
    root = build.find(options.rocm, options.layers)[1]
    if not root.exists():
        raise KerncapError(f"{root.key} has not been made", hint=f"kc-root make --rocm {options.rocm}")
    print(json.dumps(root.read_versions(), indent=1, sort_keys=True))


def _remove(options: argparse.Namespace) -> None:
    if not (options.keys or options.all or options.stale):
        raise UsageError("which roots?", hint="`kc-root list` shows their keys; or --stale, --all")
    current = _list_current_keys()
    roots = cache.list_roots()
    chosen = {_find_root(key, roots).key for key in options.keys}
    for root in roots:
        if root.key in chosen or options.all or (options.stale and root.key not in current):
            cache.remove(root)
            print(root.key)


def _find_root(key: str, roots: Sequence[cache.Root]) -> cache.Root:
    """Find the one root whose key is ``key`` or begins with it."""
    exact = [root for root in roots if root.key == key]
    found = exact or [root for root in roots if key and root.key.startswith(key)]
    if len(found) == 1:
        return found[0]
    what = f"begins {len(found)} keys: {', '.join(root.key for root in found)}" if found else "begins no key"
    raise UsageError(f"{key!r} {what}", hint="`kc-root list` shows the keys; give more of one")


def _list_current_keys() -> set[str]:
    """Return the keys of all roots that the recipes make for this user."""
    keys = set()
    for recipe in RECIPES.values():
        for layers in [(), *((name,) for name in recipe.layers)]:
            keys.add(recipe.make_key(layers, as_root=namespaces.has_all_ids()))
    return keys
