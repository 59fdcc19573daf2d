"""`make demo`: take a kernel out of a running program, edit it, rebuild it and judge it, step by step.

It runs inside the ROCm root with the package installed, and calls the executables as a user would. It also
writes an HTML page: the file that KERNCAP_DEMO_PAGE names, else demo.html in the cache.
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
from typing import Any

from demo_page import Attempt, Chapter, Command, Run, unified_diff, write_page

TOP = Path(__file__).resolve().parents[1]
SOURCES = TOP / "tests/programs/demo"
SLOW_LOOP = """    result[row] += matrix[row * shape.columns + column] * vector[column];"""
FAST_LOOP = """    sum += matrix[row * shape.columns + column] * vector[column];
  result[row] = sum;"""
RUN = Run(device="", is_software=True)


def page_path() -> Path:
    """Return the page's path, outside the root."""
    cache = os.environ.get("KERNCAP_ROOT_CACHE") or tempfile.gettempdir()
    return Path(os.environ.get("KERNCAP_DEMO_PAGE") or Path(cache) / "demo.html")


def bold(text: str) -> str:
    """Make text bold on a terminal; elsewhere return it unchanged."""
    return f"\033[1m{text}\033[0m" if sys.stdout.isatty() else text


def step(text: str) -> None:
    """Begin a chapter, and print its title."""
    RUN.chapters.append(Chapter(text))
    print(bold(f"\n{len(RUN.chapters)}. {text}"), flush=True)


def shell(command: str, *, expect: int = 0) -> str:
    """Print a command, run it, and return its standard output. Any exit code but ``expect`` ends the demo."""
    print(f"$ {command}", flush=True)
    words = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    print(done.stderr, end="", file=sys.stderr, flush=True)
    for line in done.stdout.splitlines():
        print(f"  {line}", flush=True)
    RUN.chapters[-1].commands.append(Command(command, done.returncode, done.stdout, done.stderr))
    if done.returncode != expect:
        sys.exit(f"demo: the exit code is {done.returncode}, not {expect}")
    return done.stdout


def manifest(artifact: str, *options: str) -> dict[str, Any]:
    """Return an artifact's manifest, without printing the command."""
    command = ["kc-show", "--json", *options, artifact]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return found


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


def edit(project: Path, *changes: tuple[str, str]) -> None:
    """Change the kernel as a person would in an editor, and show the difference."""
    file = project / "kernel_variant.cpp"
    before = after = file.read_text()
    for old, new in changes:
        if old not in after:
            sys.exit(f"demo: {file} has no line {old.strip()!r}")
        after = after.replace(old, new)
    file.write_text(after)
    difference = unified_diff(file.name, before, after)
    RUN.chapters[-1].edits.append(difference)
    for line in difference.splitlines()[2:]:
        print(f"  {line}")


def judge(title: str, *, accepted: bool) -> None:
    """Rebuild the kernel alone, compare what it writes, and measure it if it is right."""
    digest = shell(
        "make -s -C project recompile 2>/dev/null && kc-validate project", expect=0 if accepted else 1
    ).strip()
    ratio = None
    if accepted:
        shown = shell("kc-replay project --compare project/optimized.hsaco --warmup 1 --iterations 10")
        replay = manifest(shown.strip(), "--store", "project/capture/store")
        ratio = replay["comparison"]["ratio"]
        if RUN.is_software:
            ratio = replay["timing"]["instructions"] / replay["comparison"]["baseline"]["instructions"]
    verdict = manifest(digest, "--store", "project/capture/store")
    label = "instructions, of the captured kernel's" if RUN.is_software else "time, of the captured kernel's"
    RUN.attempts.append(Attempt(title, verdict, ratio, label))


def describe() -> None:
    """Record for the page what was captured."""
    capture, profile = manifest("@capture"), manifest("@profile")
    device = capture["environment"]["devices"][capture["dispatch"]["device_index"]]
    RUN.device = f"{device['name']} ({device['target']})"
    RUN.is_software = device["software"]
    RUN.kernel = capture["kernel"]["demangled_name"]
    grid, block = (capture["launch"][f"{name}_work_items"] for name in ("grid", "block"))
    RUN.launch = f"{' x '.join(map(str, grid))} work-items in blocks of {' x '.join(map(str, block))}"
    RUN.kernels = profile["kernels"]


def walk(folder: Path) -> None:
    """Do the whole job."""
    project = folder / "project"
    step("Build a HIP program that has a slow kernel")
    build(folder / "app")
    step("Rank the kernels; capture the second dispatch of the slow one, find its source, make a project")
    shell(
        "kc-profile -- ./app/demo 50"  # enough steps to make its share of the time certain
        " | kc-capture --kernel add_rows --dispatch 1"
        " | kc-locate --source-dir app"
        " | kc-generate --output project"
    )
    shell("kc-show @capture")
    describe()
    step("Replay the kernel alone, at its original addresses, and compare with its results in the program")
    shell("kc-replay @capture")
    step("Rebuild this kernel alone from the unchanged source, and compare byte for byte")
    judge("unchanged source, rebuilt", accepted=True)
    step("Make it faster: keep the sum in a register")
    edit(
        project,
        ("  for (int column", "  float sum = result[row];\n  for (int column"),
        (SLOW_LOOP, FAST_LOOP),
    )
    judge("the sum in a register", accepted=True)
    step("Make a mistake: one row is not written. kc-validate finds it and says where")
    edit(project, ("  result[row] = sum;", "  if (row != 77) result[row] = sum;"))
    judge("one row is not written", accepted=False)
    step("Make a kernel that writes nothing: kc-validate rejects it")
    edit(project, ("row != 77", "sum == 12345.0f"))
    judge("nothing is written", accepted=False)
    step("Damage the store that holds all of this: kc-store check finds the damage")
    shell("kc-store ls && kc-store check")
    victim = max((folder / "store/objects").glob("*/*"), key=lambda path: path.stat().st_size)
    victim.chmod(0o600)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    print(f"  flipped one bit of {victim.name[:12]}…")
    shell("kc-store check", expect=3)


def summary() -> None:
    """Print the verdicts at the end."""
    print(bold(f"\nDone in {RUN.seconds:.0f} s."), RUN.kernel)
    for attempt in RUN.attempts:
        measured = "" if attempt.ratio is None else f"{attempt.ratio:.3f} of the captured kernel's "
        measured += "" if attempt.ratio is None else attempt.ratio_label.split(",")[0]
        verdict = "accepted" if attempt.passed else "REJECTED"
        print(f"  {verdict}  {attempt.title:28}  {measured}".rstrip())
    if RUN.is_software:
        print("  (instructions counted by the software GPU; its times say nothing about hardware)")
    print(f"The page of this run: {page_path()}")
    print(
        "Next: the same with a program of yours, in five commands: docs/edit-loop.md, The short path; "
        "`make shell` opens a shell for them",
        flush=True,
    )


def main() -> None:
    """Run the demo in a temporary folder."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kerncap-demo-") as name:
        os.environ["KERNCAP_STORE"] = str(Path(name) / "store")
        os.chdir(name)
        walk(Path(name))
        os.chdir(TOP)
    RUN.seconds = time.monotonic() - started
    write_page(RUN, page_path())
    summary()


if __name__ == "__main__":
    main()
