"""A worker without a GPU: what a variant's bytes say is what becomes of it. Run as a program.

    right N     right, with N instructions of 1000      wrong       wrong
    refused     no variant of the kernel                no device   the device fails, each time
    dies once   the process dies, the first time        dies        it dies, each time
    fails on X  wrong on the capture X, right on others
    timed       right, and wrong in a timed run
    late        right without a time; when it is timed later, a timed run is wrong
    shared N    right, in a process that others had used; alone it has N + 1 instructions
    helped N    the same, but alone it is wrong
    slow        right, after the folder KERNCAP_TEST_GATE exists
It appends each task to the file KERNCAP_TEST_TASKS. Verdicts are like the one in KERNCAP_TEST_VERDICT.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from kerncap_stages.evaluate.tasks import READY, Result, Setup, Task, read_setup, read_task, write
from kerncap_stages.manifests import to_canonical
from kerncap_stages.store import Store


def answer(setup: Setup, task: Task, seen: int) -> Result:
    said = Path(str(task.code)).read_text()
    word, _, number = said.partition(" ")
    if said.startswith("refused"):
        return Result(task.number, reasons=("another signature",), exit_code=6)
    if said.startswith("no device"):
        return Result(task.number, reasons=("no device",), exit_code=4, is_final=False)
    if said.startswith("dies") and (seen == 0 or "once" not in said):
        os._exit(9)
    if word == "slow":
        while not Path(os.environ["KERNCAP_TEST_GATE"]).exists():
            time.sleep(0.01)
    is_shared = word in ("shared", "helped") and not task.alone
    passed = word != "wrong" and not (word == "helped" and task.alone) and said != f"fails on {task.capture}"
    store = Store.open(Path(setup.store))
    with store.begin_transaction() as transaction:
        code = transaction.put_bytes(said.encode())
        verdict = json.loads(Path(os.environ["KERNCAP_TEST_VERDICT"]).read_bytes())
        verdict["capture"] = f"manifest:{task.capture}"
        verdict["parents"] = [verdict["capture"]]
        verdict["variant"] |= {"payload": f"file:{code}", "size_bytes": len(said)}
        verdict["passed"], verdict["reasons"] = passed, [] if passed else ["outputs differ"]
        verdict["seed"], verdict["baselines"] = task.seed, []
        digest = transaction.put_bytes(to_canonical(verdict))
        transaction.publish_objects()
    if task.judged and word == "right":
        return Result(task.number, True, time=count(number))
    if word == "timed" or task.judged:
        told = ("wrong in 1 of 20 timed runs",)
        if task.judged:
            return Result(task.number, passed=False, reasons=told, is_wrong_when_timed=True)
        return Result(task.number, False, str(digest), str(code), told, is_wrong_when_timed=True)
    reasons = tuple(verdict["reasons"])
    if word == "shared" and task.alone:
        number = str(int(number) + 1)
    time_ = count(number) if passed and word != "late" and setup.times else None
    found = Result(task.number, passed, str(digest), str(code), reasons, time=time_)
    return replace(found, own_process=not is_shared)


def count(number: str) -> dict[str, float]:
    instructions = int(number) if number.isdigit() else 1000
    return {
        "ratio": instructions / 1000,
        "variant_instructions": instructions,
        "captured_instructions": 1000,
    }


def main() -> None:
    setup = read_setup(sys.stdin.buffer.readline())
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    log = Path(os.environ["KERNCAP_TEST_TASKS"])
    while line := sys.stdin.buffer.readline():
        task = read_task(line)
        before = log.read_text().splitlines() if log.exists() else []
        seen = sum(json.loads(each)["code"] == task.code for each in before)
        with log.open("a") as file:
            asked = {"code": task.code, "seed": task.seed, "judged": task.judged, "alone": task.alone}
            file.write(json.dumps(asked) + "\n")
        sys.stdout.buffer.write(write(answer(setup, task, seen)))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
