"""What `make demo` shows: a kernel taken out of a running program, edited, rebuilt and judged, step by step.

Runs inside the ROCm root with the package installed, and goes through the executables, as a user would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
SOURCES = TOP / "tests/programs/demo"
STEPS = iter(range(1, 100))
SLOW_LOOP = """    result[row] += matrix[row * shape.columns + column] * vector[column];"""
FAST_LOOP = """    sum += matrix[row * shape.columns + column] * vector[column];
  result[row] = sum;"""


def step(text: str) -> None:
    """Say what comes next."""
    print(f"\n\033[1m{next(STEPS)}. {text}\033[0m", flush=True)


def shell(command: str, *, expect: int = 0) -> str:
    """Show a command, run it, return its standard output; another exit code than expected ends all."""
    print(f"$ {command}", flush=True)
    words = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    for line in done.stdout.splitlines():
        print(f"  {line}", flush=True)
    if done.returncode != expect:
        sys.exit(f"demo: exit code {done.returncode} instead of {expect}")
    return done.stdout


def build(folder: Path) -> None:
    """Build the demo program as a build system would: with a compilation database."""
    shutil.copytree(SOURCES, folder)
    flags = "-O3 -Iinclude --offload-arch=gfx90a"
    database = [
        {"directory": str(folder), "file": source, "command": f"hipcc {flags} -c {source} -o unit.o"}
        for source in ("src/main.cpp", "src/matvec.hip")
    ]
    (folder / "compile_commands.json").write_text(json.dumps(database, indent=1))
    shell(f"cd {folder} && hipcc {flags} src/main.cpp src/matvec.hip -o demo 2>/dev/null && ls")


def edit(project: Path, old: str, new: str) -> None:
    """Change the kernel as a person would in an editor."""
    file = project / "kernel_variant.cpp"
    text = file.read_text()
    if old not in text:
        sys.exit(f"demo: {file} is not as expected")
    file.write_text(text.replace(old, new))
    print(f"  edited {file.name}")


def main() -> None:
    """Walk through the whole job."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kerncap-demo-") as name:
        folder = Path(name)
        os.environ["KERNCAP_STORE"] = str(folder / "store")
        os.chdir(folder)
        step("A HIP program with a slow kernel, built as any project is")
        build(folder / "app")
        step("Which kernel takes the time? Take its second dispatch, find its source, make a project of it")
        shell(
            "kc-profile -- ./app/demo"
            " | kc-capture --kernel add_rows --dispatch 1"
            " | kc-locate --source-dir app"
            " | kc-generate --output project"
        )
        shell("kc-show @capture")
        step("Replay the kernel alone, at its original addresses: does it do what it did in the program?")
        shell("kc-replay @capture")
        step("Rebuild the unchanged source, this kernel alone, and compare byte for byte")
        shell("make -s -C project recompile 2>/dev/null && kc-validate project")
        step("Make it faster: keep the sum in a register")
        edit(folder / "project", "  for (int column", "  float sum = result[row];\n  for (int column")
        edit(folder / "project", SLOW_LOOP, FAST_LOOP)
        shell("make -s -C project recompile 2>/dev/null && kc-validate project")
        step("How much faster? (the software GPU's times say nothing about hardware)")
        shell("kc-replay project --compare project/optimized.hsaco --iterations 10")
        step("A mistake: one row is not written. It is found, with its place")
        edit(folder / "project", "  result[row] = sum;", "  if (row != 77) result[row] = sum;")
        shell("make -s -C project recompile 2>/dev/null && kc-validate project", expect=1)
        step("A kernel that writes nothing at all is not mistaken for a right one")
        edit(folder / "project", "row != 77", "sum == 12345.0f")
        shell("make -s -C project recompile 2>/dev/null && kc-validate project", expect=1)
        step("All of it is in a store whose damage is found")
        shell("kc-store ls && kc-store check")
        victim = max((folder / "store/objects").glob("*/*"), key=lambda path: path.stat().st_size)
        victim.chmod(0o600)
        content = bytearray(victim.read_bytes())
        content[len(content) // 2] ^= 1
        victim.write_bytes(content)
        print(f"  flipped one bit of {victim.parent.name}{victim.name[:10]}…")
        shell("kc-store check", expect=3)
    print(f"\n\033[1mDone in {time.monotonic() - started:.0f} s.\033[0m")


if __name__ == "__main__":
    main()
