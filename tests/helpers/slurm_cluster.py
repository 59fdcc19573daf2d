"""A Slurm cluster of several nodes on this machine: Debian's slurmctld and slurmd, as root."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

_LIMIT_S = 60
_CONFIGURATION = """
ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/slurm
CredType=cred/slurm
SlurmctldPort={controller}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SlurmdTimeout=10
InactiveLimit=0
KillWait=2
"""


class SlurmCluster:
    """Runs during a ``with`` block. ``environment``: by which Slurm's programs find it."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder = folder
        ports = _choose_ports(nodes + 1)
        self._ports = {f"node{number}": ports[number] for number in range(1, nodes + 1)}
        lines = [
            f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"
            for name, port in self._ports.items()
        ]
        lines.append("PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        text = _CONFIGURATION.format(folder=folder, controller=ports[0])
        (folder / "slurm.conf").write_text(text + "\n".join(lines) + "\n")
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (folder / "state").mkdir()
        key = folder / "slurm.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(1024))
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._stack = ExitStack()
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            self._start("slurmctld", "-D")
            for name in self._ports:
                self.start_node(name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._nodes):
            self.kill_node(name)
        self._stack.close()

    def start_node(self, name: str) -> None:
        """Start a node that does not run, and wait until it takes jobs.

        One after the other: while they start, all use the same socket, which only one may bind.
        """
        self._nodes[name] = self._start("slurmd", "-D", "-N", name)
        ends_at = time.monotonic() + _LIMIT_S
        while self.run("sinfo", "--noheader", f"--nodes={name}", "--format=%t").strip() != "idle":
            log = self._folder / f"slurmd-{name}.log"
            assert time.monotonic() < ends_at, log.read_text()[-3000:]
            time.sleep(0.1)

    def kill_node(self, name: str) -> None:
        """Kill a node with all that runs on it."""
        for process in _find_family(self._nodes[name].pid):
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._nodes.pop(name).wait()

    def run(self, *words: str) -> str:
        """Run a program of Slurm, and return what it prints."""
        environment = {**os.environ, **self.environment}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        return done.stdout

    def _start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        path = shutil.which(program, path=f"/usr/sbin:{os.environ['PATH']}")
        assert path is not None, f"{program} is missing: `make test-fleet` runs in a root that has it"
        process = subprocess.Popen(
            [path, *words],
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        return process


def _choose_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _find_family(top: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [top]
    while waiting:
        found.append(waiting.pop())
        waiting += children.get(found[-1], [])
    return found
