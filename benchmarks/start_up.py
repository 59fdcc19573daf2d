"""How long a stage takes to start, against the imports that it cannot do without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from frame import Figure, Run, at_most, row
from stopwatch import Seconds, Stopwatch

from kerncap_stages.store import Store

STARTS = 15
ARTIFACTS = 10_000
PAGE_IMPORTS = """
import typer, rich.table, pydantic
class Model(pydantic.BaseModel):
    a: int
    b: str
"""


def started(*words: object, variables: dict[str, str] | None = None) -> Seconds:
    """Seconds that a command takes; its output goes to a file of nothing."""
    watch = Stopwatch()
    nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    subprocess.run([str(word) for word in words], check=True, env=os.environ | (variables or {}), **nothing)
    return watch.stop()


def compared(run: Run, command: list[object], imports: str, variables: dict[str, str]) -> Figure:
    """A command against the imports alone, started by turns."""
    ours, plain, ratio, cpu = run.paired(
        lambda: started(*command, variables=variables), lambda: started(sys.executable, "-c", imports), STARTS
    )
    return Figure(1000 * ours, "ms", 1000 * plain, ratio, cpu_ratio=cpu)


def executable(name: str) -> Path:
    return Path(sys.executable).parent / name


@row("start.help", "kc-show --help / import typer", at_most(1.3))
def show_help(run: Run) -> Figure:
    return compared(run, [executable("kc-show"), "--help"], "import typer", {})


@row("start.page", "kc-show HASH / import typer, rich.table, one pydantic model", at_most(1.4))
def show_page(run: Run) -> Figure:
    from executables import publish_capture  # the tests' own example of the largest kind

    place = run.place()
    try:
        store = Store.open(place / "store")
        digest = publish_capture(store)
        return compared(
            run, [executable("kc-show"), digest], PAGE_IMPORTS, {"KERNCAP_STORE": str(store.root)}
        )
    finally:
        shutil.rmtree(place)


@row(
    "start.many",
    f"kc-show HASH beside {ARTIFACTS:,} artifacts / as the only one",
    at_most(3),
)
def show_page_of_many(run: Run) -> Figure:
    import manifest_examples
    from executables import publish_capture

    from kerncap_stages.manifests import dump
    from kerncap_stages.store.artifacts import make_list_entry

    place = run.place()
    try:
        small, large = Store.open(place / "small"), Store.open(place / "large")
        digest = publish_capture(small)
        publish_capture(large)
        plain = manifest_examples.profile()
        with large.begin_transaction() as transaction:
            profiles = (plain.model_copy(update={"wall_ns": number}) for number in range(ARTIFACTS))
            digests = [transaction.put_bytes(dump(profile)) for profile in profiles]
            transaction.publish_listed([(each, make_list_entry("profile", [], 1)) for each in digests])
        ours, alone, ratio, cpu = run.paired(
            lambda: started(executable("kc-show"), digest, "--store", large.root),
            lambda: started(executable("kc-show"), digest, "--store", small.root),
            STARTS,
        )
        return Figure(1000 * ours, "ms", 1000 * alone, ratio, cpu_ratio=cpu)
    finally:
        shutil.rmtree(place)
