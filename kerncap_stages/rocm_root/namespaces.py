"""Private mount namespaces, as root or through a user namespace, by system calls.

Python 3.11 has no ``os.unshare``, so this module calls libc directly. Mounts that it makes belong to the
calling process and its children only. The kernel removes them when the last of these ends, in whatever way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import pwd
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from kerncap_stages.errors import Refused

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUSER: Final = 0x10000000
MS_RDONLY: Final = 1
MS_REMOUNT: Final = 32
MS_BIND: Final = 4096
MS_REC: Final = 16384
MS_PRIVATE: Final = 1 << 18
MS_RELATIME: Final = 1 << 21
# A bind mount made in a user namespace must keep these flags of what it binds.
KEPT_FLAGS: Final = MS_RDONLY | 2 | 4 | 8 | 1024 | 2048
ST_RELATIME: Final = 4096
# Ids 1 to 65535 of the root are the user's subordinate ids; id 0 is the user.
SUBORDINATE_IDS: Final = 65535

SYSCTL = Path("/proc/sys")
# Each setting, with the value that forbids user namespaces and one that allows them.
_SETTINGS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("user/max_user_namespaces", "0", "15000"),
)

_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(source: str, target: Path, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount ``source`` on ``target``. Raises OSError that names both."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, str(target), kind, options)]
    try:
        _call("mount", encoded[0], encoded[1], encoded[2], ctypes.c_ulong(flags), encoded[3])
    except OSError as error:
        raise OSError(
            error.errno, f"cannot mount {source} on {target}: {os.strerror(error.errno or 0)}"
        ) from error


def bind(source: Path, target: Path) -> None:
    """Bind ``source``, and everything mounted below it, at ``target``."""
    mount(str(source), target, None, MS_BIND | MS_REC)


def list_mounts_below(folder: Path) -> list[Path]:
    """List the mount points below ``folder`` that this process sees."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # The kernel writes blanks, tabs, newlines and backslashes as \\ and three octal digits.
    paths = {Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place)) for place in places}
    return sorted(path for path in paths if path != folder and path.is_relative_to(folder))


def make_read_only(target: Path) -> None:
    """Make one bind mount read-only. Keeps the flags that a user namespace may not remove."""
    have = os.statvfs(target).f_flag
    flags = have & KEPT_FLAGS | (MS_RELATIME if have & ST_RELATIME else 0)
    mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def has_all_ids() -> bool:
    """Whether this process may make files of any user: it is the machine's root, not a user namespace's."""
    rows = Path("/proc/self/uid_map").read_text().split()
    return os.geteuid() == 0 and rows == ["0", "0", str(2**32 - 1)]


def enter_private_mounts() -> None:
    """Give this process mounts of its own. Raises Refused if the machine does not allow that."""
    if os.geteuid() == 0:
        try:
            _call("unshare", CLONE_NEWNS)
        except OSError as error:
            raise _explain_refused_root(error) from error
    else:
        _enter_user_namespace()
    try:
        mount("none", Path("/"), None, MS_REC | MS_PRIVATE)
    except OSError as error:
        raise explain_refused_user(error) from error


def _enter_user_namespace() -> None:
    """Become root of a user namespace. A child that was forked before writes the id maps from outside."""
    commands = [[tool, str(os.getpid()), "0", str(own), "1", "1", str(start), str(count)]
                for tool, own, (start, count) in _choose_id_maps()]  # fmt: skip
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        os.read(ready, 1)
        status = 1
        try:
            status = max(subprocess.run(command, check=False).returncode for command in commands)
        finally:
            os._exit(min(status, 255))
    os.close(ready)
    try:
        try:
            _call("unshare", CLONE_NEWUSER | CLONE_NEWNS)
        finally:
            os.close(go)
    except OSError as error:
        os.waitpid(child, 0)
        raise explain_refused_user(error) from error
    if os.waitpid(child, 0)[1] != 0:
        raise Refused(
            "newuidmap or newgidmap refused to map the subordinate ids",
            hint="they must be setuid root (package uidmap), and /etc/subuid and /etc/subgid list this user",
        )


def _choose_id_maps() -> list[tuple[str, int, tuple[int, int]]]:
    """Return (tool, own id, subordinate range) for users and for groups."""
    maps = []
    for name, own, table in (
        ("newuidmap", os.getuid(), "/etc/subuid"),
        ("newgidmap", os.getgid(), "/etc/subgid"),
    ):
        tool = shutil.which(name)
        if tool is None:
            raise Refused(
                f"an ordinary user needs {name}", hint="apt-get install uidmap, or run this as root"
            )
        maps.append((tool, own, find_subordinate_range(Path(table))))
    return maps


def find_subordinate_range(table: Path) -> tuple[int, int]:
    """Find a large enough range of this user in /etc/subuid or /etc/subgid. Raises Refused without one."""
    user = pwd.getpwuid(os.getuid()).pw_name
    lines = table.read_text().splitlines() if table.exists() else []
    for line in lines:
        owner, start, count = [*line.split(":"), "", ""][:3]
        if owner in (user, str(os.getuid())) and count.isdigit() and int(count) >= SUBORDINATE_IDS:
            return int(start), SUBORDINATE_IDS
    raise Refused(
        f"user {user} has no {SUBORDINATE_IDS} subordinate ids in {table}",
        hint=f"as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}",
    )


def _explain_refused_root(error: OSError) -> Refused:
    return Refused(
        f"this machine does not let root make a mount namespace ({error.strerror})",
        hint="in a container: start it with CAP_SYS_ADMIN (docker run --privileged), "
        "or use the Containerfile, whose image is such a root already",
    )


def explain_refused_user(error: OSError) -> Refused:
    """Return the error for an ordinary user. It names the setting that forbids namespaces, if one does."""
    for path, bad, good in _SETTINGS:
        file = SYSCTL / path
        if file.exists() and file.read_text().strip() == bad:
            name = path.replace("/", ".")
            return Refused(
                f"user namespaces are off on this machine: {name} = {bad}",
                hint=f"as root: sysctl -w {name}={good}; or run this as root",
            )
    reason = "a container's seccomp rules?" if error.errno == errno.EPERM else os.strerror(error.errno or 0)
    return Refused(
        f"this machine does not let an ordinary user make namespaces ({reason})", hint="run this as root"
    )
