"""Make a root: mmdebstrap makes the base system, the root's own apt installs the recipe's packages.

The root is built in a temporary folder, checked, and then renamed. So a root that exists is complete.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kerncap_stages.errors import DeviceError, KerncapError
from kerncap_stages.rocm_root import bootstrap, enter, host, namespaces, versions
from kerncap_stages.rocm_root.cache import (
    Root,
    find_cache_folder,
    hold,
    lock_root,
    make_cache,
    remove_tree,
    sweep,
)
from kerncap_stages.rocm_root.children import run_in_child
from kerncap_stages.rocm_root.recipes import COMMON_PACKAGES, Recipe, find_recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOG_TAIL_LINES = 25
_HOST_CA = Path("etc/kerncap-host-ca.crt")
_ARCHIVES = Path("var/cache/apt/archives")  # where apt keeps the packages that it downloads
_DOWNLOADED = Path("var/cache/apt/downloaded")  # by an earlier run
_TAKE_DOWNLOADED = f"""if [ -d /{_DOWNLOADED} ]; then
  mv /{_DOWNLOADED}/*.deb /{_ARCHIVES}/
  rm -r /{_DOWNLOADED}
fi
"""


def find(rocm: str, layers: Sequence[str] = ()) -> tuple[Recipe, Root]:
    """Return the recipe and the root, whether it exists or not."""
    recipe = find_recipe(rocm)
    return recipe, Root(recipe.make_key(tuple(layers), as_root=namespaces.has_all_ids()))


def ensure(rocm: str, layers: Sequence[str] = (), *, mirror: str | None = None) -> Root:
    """Return the root of this ROCm version with these layers; make it if it does not exist.

    Raises Refused if this machine cannot make roots, DeviceError if a step fails or a version is unsupported.
    """
    recipe, root = find(rocm, layers)
    if root.exists():
        return root
    run_in_child(lambda: None, private=True)  # if this machine cannot, say so before anything is downloaded
    make_cache()
    sweep(root)
    with lock_root(root):
        if not root.exists():  # no other process made it while this one waited
            base = ensure(rocm, mirror=mirror) if layers else None
            _Build(recipe, root, tuple(layers), host.find_archive_mirror(mirror)).make(base)
    return root


class _Build:
    """One attempt to make one root."""

    def __init__(self, recipe: Recipe, root: Root, layers: tuple[str, ...], mirror: str | None) -> None:
        self.recipe, self.root, self.layers, self.mirror = recipe, root, layers, mirror
        self.files = root.making / "fs"
        self.log_path = find_cache_folder() / "logs" / f"{root.key}.log"
        self.started = time.monotonic()

    def make(self, base: Root | None) -> None:
        """Run all steps. If one fails, only the log remains."""
        remove_tree(self.root.making)
        self._check_space()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with self.log_path.open("w") as log:
                self.files.mkdir(parents=True)
                source = self.mirror or "mmdebstrap's own archive"
                self._say(f"making {self.root.key} from {source} (log: {self.log_path})")
                if base is None:
                    self._make_base(log)
                else:
                    self._copy_base(base, log)
                self._take_downloads()
                with self._log_step("packages"):
                    script = install_script(self.recipe, self.layers if base else None)
                    self._run_in_root(_TAKE_DOWNLOADED + script, log)
            with self._log_step("versions"):
                self._record()
            shutil.copyfile(self.log_path, self.root.making / "build.log")
            self.root.making.rename(self.root.folder)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                self._say("interrupted: deleting what was made; Ctrl-C leaves that to the next run")
            self._keep_downloads()
            remove_tree(self.root.making)
            raise
        self._say(f"made {self.root.folder}")

    def _take_downloads(self) -> None:
        """Give the root the packages that an earlier run downloaded."""
        if self.root.downloads.is_dir():
            self.root.downloads.rename(self.files / _DOWNLOADED)

    def _keep_downloads(self) -> None:
        """Keep the packages that were downloaded, for the next run."""
        for place in (_ARCHIVES, _DOWNLOADED):
            if any((self.files / place).glob("*.deb")) and not self.root.downloads.exists():
                self.root.downloads.parent.mkdir(exist_ok=True)
                (self.files / place).rename(self.root.downloads)

    def _check_space(self) -> None:
        sizes = [layer.size_gib for layer in self.recipe.choose_layers(self.layers)]
        needed_gib = self.recipe.size_gib + sum(sizes)
        free_gib = shutil.disk_usage(self.root.folder.parent).free / 2**30
        if free_gib < needed_gib:
            folder = find_cache_folder()
            raise DeviceError(
                f"{self.root.key} needs {needed_gib:.1f} GiB, {folder} has {free_gib:.1f} GiB free",
                hint="set KERNCAP_ROOT_CACHE to a folder on a larger disk, or remove roots: kc-root rm",
            )

    def _make_base(self, log: TextIO) -> None:
        """Make the base system, and unpack its tar stream inside the namespace that will own the files."""
        command = bootstrap.make_command(self.recipe.suite, self.mirror, host.list_apt_network_options(), log)
        with self._log_step("base system"):
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as maker:
                assert maker.stdout
                stream = maker.stdout.fileno()
                unpacked = run_in_child(lambda: self._unpack(stream, log), private=os.geteuid() != 0)
            if maker.returncode != 0 or unpacked != 0:
                raise self._make_failure("the base system could not be made")
            if run_in_child(self._configure, private=os.geteuid() != 0) != 0:
                raise self._make_failure("the base system could not be configured")

    def _unpack(self, stream: int, log: TextIO) -> None:
        command = ["tar", "-x", "-p", "--numeric-owner", "--exclude=./dev/*", "-C", str(self.files)]
        subprocess.run(command, stdin=stream, stderr=log, check=True)

    def _configure(self) -> None:
        mirror = bootstrap.find_mirror(self.files, self.recipe.suite)
        sources = [
            f"deb {mirror} {suite} main\n" for suite in (self.recipe.suite, self.recipe.overlay) if suite
        ]
        options = host.list_apt_network_options()
        if host.CA_BUNDLE.exists():
            shutil.copyfile(host.CA_BUNDLE, self.files / _HOST_CA)
            options.append(f'Acquire::https::CAInfo "/{_HOST_CA}";')
        for name, text in (
            ("etc/apt/sources.list", "".join(sources)),
            ("etc/apt/apt.conf.d/90kerncap", "\n".join(options) + '\nAPT::Install-Recommends "false";\n'),
            ("etc/dpkg/dpkg.cfg.d/kerncap", _DPKG_SETTINGS),
            ("usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n"),
        ):
            (self.files / name).write_text(text)
        (self.files / "usr/sbin/policy-rc.d").chmod(0o755)
        shutil.rmtree(self.files / "root")
        (self.files / "root").mkdir()

    def _copy_base(self, base: Root, log: TextIO) -> None:
        lock = hold(base, exclusive=False)
        command = ["cp", "-a", "--reflink=auto", f"{base.files}/.", str(self.files)]
        try:
            with self._log_step(f"copy of {base.key}"):
                status = run_in_child(
                    lambda: subprocess.run(command, stderr=log, check=True), private=os.geteuid() != 0
                )
        finally:
            os.close(lock)
        if status != 0:
            raise self._make_failure(f"{base.key} could not be copied")

    def _run_in_root(self, script: str, log: TextIO) -> None:
        """Run a shell script in the new root, with its output in the log."""

        def become_script() -> None:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
            os.chdir("/")
            enter.enter_view(self.files, [], read_only=False)
            enter.become(
                ["/bin/sh", "-exc", script], enter.make_environment({"DEBIAN_FRONTEND": "noninteractive"})
            )

        if run_in_child(become_script, private=False, session=True) != 0:
            raise self._make_failure("its packages could not be installed")

    def _record(self) -> None:
        packages = versions.read_installed(self.files)
        versions.check(self.recipe, self.layers, packages)
        record = {
            "rocm": self.recipe.rocm, "layers": list(self.layers), "suite": self.recipe.suite,
            "mirror": bootstrap.find_mirror(self.files, self.recipe.suite),
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "packages": packages,
        }  # fmt: skip
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        (self.root.making / "versions.json").write_text(text)
        marker = self.files / enter.MARKER.relative_to("/")
        if run_in_child(lambda: marker.write_text(text), private=os.geteuid() != 0) != 0:
            raise self._make_failure("its versions could not be recorded")

    def _make_failure(self, what: str) -> KerncapError:
        tail = self.log_path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        print("\n".join(f"  | {line}" for line in tail), file=sys.stderr, flush=True)
        return DeviceError(f"{self.root.key}: {what}", hint=f"the whole log is in {self.log_path}")

    def _say(self, text: str) -> None:
        print(f"kc-root: [{time.monotonic() - self.started:5.1f} s] {text}", file=sys.stderr, flush=True)

    @contextmanager
    def _log_step(self, name: str) -> Iterator[None]:
        self._say(f"{name} …")
        yield


_DPKG_SETTINGS = """force-unsafe-io
path-exclude=/usr/share/man/*
path-exclude=/usr/share/info/*
path-exclude=/usr/share/locale/*
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
"""

# For sed: the address of an archive, in either form of apt's sources.
_ARCHIVE = r"s/^URIs: *//p; s/^deb \([^ ]*\) .*/\1/p"


def _add_fallback(suite: str) -> list[str]:
    """Return the shell commands that let apt take from ``suite`` what the root's own suite lacks."""
    sources = "/etc/apt/sources.list /etc/apt/sources.list.d/*.sources"
    archive = f"$(sed -n '{_ARCHIVE}' {sources} 2>/dev/null | head -n 1)"
    pin = rf"Package: *\nPin: release n={suite}\nPin-Priority: 50\n"  # the root's own suite has 500
    return [
        f'echo "deb {archive} {suite} main" > /etc/apt/sources.list.d/{suite}.list',
        f"printf '{pin}' > /etc/apt/preferences.d/{suite}",
    ]


def install_script(recipe: Recipe, layers: Sequence[str] | None) -> str:
    """Return the shell commands that install the recipe's packages, or with ``layers`` only these layers."""
    install = "apt-get install -y -q --no-install-recommends"
    chosen = recipe.choose_layers(tuple(layers or ()))
    lines = [line for layer in chosen if layer.fallback for line in _add_fallback(layer.fallback)]
    lines.append("apt-get update -q")
    release = f"-t {recipe.overlay} " if recipe.overlay else ""
    if layers is None:
        if recipe.rocm_packages:
            lines.append(f"{install} {release}{' '.join(recipe.rocm_packages)}")
        lines.append(f"{install} {' '.join((*COMMON_PACKAGES, *recipe.packages))}")
    else:
        lines += [f"{install} {release}{' '.join(layer.packages)}" for layer in chosen]
    return "\n".join([*lines, "apt-get clean", "rm -rf /var/lib/apt/lists/*"])
