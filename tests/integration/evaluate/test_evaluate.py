"""kc-evaluate on the software GPU: verdicts as when judged alone, the cascade, interrupts, names, pipes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from stages import executable

ALONE = {"right": 0, "faster": 0, "half": 1, "null": 1, "for_ever": 1, "keeps_results": 1, "leaks": 0}
LIMIT = ("--timeout", 3)


def outcomes(manifest):
    return {each["name"].rpartition("/")[2]: each["outcome"] for each in manifest["variants"]}


@pytest.fixture
def variants(stages, way):
    """A folder with some variants, each under the name of its way."""
    folder = stages.folder / "variants"
    folder.mkdir()

    def place(*names):
        for name in names:
            shutil.copy(way(name), folder / f"{name}.hsaco")
        return folder

    return place


def test_verdicts_are_those_of_kc_validate(stages, way, variants):
    folder = variants(*ALONE, "signature")
    made = stages.run("evaluate", "@capture", folder, *LIMIT, "--json").must().manifest
    wanted = {f"{name}.hsaco": "wrong" if code else "right" for name, code in ALONE.items()}
    assert outcomes(made) == {**wanted, "signature.hsaco": "refused"}
    evaluated = {each["name"].rpartition("/")[2].removesuffix(".hsaco"): each for each in made["variants"]}
    for name in ALONE:
        alone = stages.run("validate", "@capture", "--variant", way(name), *LIMIT, "--fresh", "--json")
        ours = stages.show(evaluated[name]["cases"][0]["verdict"].removeprefix("manifest:"))
        theirs = alone.manifest
        assert alone.code == ALONE[name], alone.err
        for member in ("passed", "mode", "coverage", "pre_states", "unedited", "variant"):
            assert ours[member] == theirs[member], (name, member)
        if name != "keeps_results":  # its reasons tell how many of a random number of runs differed
            assert without_seed(ours["reasons"]) == without_seed(theirs["reasons"]), name
    refused = stages.run("validate", "@capture", "--variant", way("signature"))
    assert evaluated["signature"]["reasons"][0].partition(": ")[2] in refused.err
    assert evaluated["faster"]["rank"] == 1
    ratio = evaluated["faster"]["cases"][0]["time"]["ratio"]
    compared = stages.run("replay", "@capture", "--compare", way("faster"), "--json").manifest
    counted = compared["timing"]["instructions"] / compared["comparison"]["baseline"]["instructions"]
    assert ratio == pytest.approx(counted)


def without_seed(reasons):
    return [reason.partition("`--seed")[0] for reason in reasons]


def test_kc_validate_knows_what_was_evaluated_and_the_other_way_round(stages, way, variants):
    folder = variants("right", "half")
    validated = stages.run("validate", "@capture", "--variant", way("half")).must(1).digests
    first = stages.run("evaluate", "@capture", folder, "--json").must().manifest
    verdicts = {each["outcome"]: each["cases"][0]["verdict"] for each in first["variants"]}
    assert verdicts["wrong"] == f"manifest:{validated[0]}"
    again = stages.run("validate", "@capture", "--variant", way("right")).must().digests
    assert verdicts["right"] == f"manifest:{again[0]}"
    second = stages.run("evaluate", "@capture", folder, "--json").must().manifest
    assert second["variants"] == first["variants"]


def test_sources_are_built_with_the_projects_flags(stages, variants):
    folder = variants()
    source = (stages.folder / "project/kernel_variant.cpp").read_text()
    assert "#define WAY 0" in source
    (folder / "plain.hip").write_text(source)
    (folder / "broken.hip").write_text(source.replace("__global__", "__globl__"))
    (folder / "again.cpp").write_text(source)
    lines = [
        {"path": str(folder / "plain.hip"), "name": "faster", "flags": ["-DWAY=1"]},
        {"path": str(folder / "plain.hip"), "name": "wrong\nname", "flags": "-DWAY=2"},
    ]
    said = "".join(json.dumps(each) + "\n" for each in lines)
    before = sorted(path.name for path in (stages.folder / "project").iterdir())
    done = stages.run(
        "evaluate", "project", folder, "-", "--lines", "each.jsonl", "--json", stdin=said
    ).must()
    assert outcomes(done.manifest) == {
        "plain.hip": "right", "again.cpp": "right", "broken.hip": "not_built", "faster": "right",
        "wrong\nname": "wrong",
    }  # fmt: skip
    assert sorted(path.name for path in (stages.folder / "project").iterdir()) == before
    assert "broken.hip: kernel_variant.cpp:" in done.err
    assert "wrong\\nname" in done.err
    assert "Best: " in done.err
    told = [json.loads(line) for line in (stages.folder / "each.jsonl").read_text().splitlines()]
    assert sorted(each["number"] for each in told) == [0, 1, 2, 3, 4]
    by_name = {each["name"].rpartition("/")[2]: each for each in done.manifest["variants"]}
    assert by_name["plain.hip"]["same_as"] is not None or by_name["again.cpp"]["same_as"] is not None
    assert by_name["faster"]["ratio"] < by_name["plain.hip"]["ratio"]
    # The user's store has it, too, and its page.
    assert "not built" in stages.run("show", "@evaluation").must().out


def test_instructions_are_put_back_into_the_captured_code(stages):
    stages.run("generate", "@capture", "--assembly", "--output", "instructions").must()
    source = stages.folder / "instructions/kernel_variant.s"
    (stages.folder / "mine.s").write_text(source.read_text() + "\n; mine\n")
    (stages.folder / "mine.hip").write_text("__global__ void k() {}")
    made = stages.run("evaluate", "instructions", "mine.s", "mine.hip", "--json").must().manifest
    assert outcomes(made) == {"mine.s": "right", "mine.hip": "refused"}, made["variants"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_was_judged_and_the_same_command_goes_on(stages, variants, number):
    folder = variants("right", "half", "for_ever")
    (folder / "for_ever.hsaco").rename(folder / "zzz.hsaco")
    words = ("@capture", folder, "--workers", 1, "--timeout", 60)
    process = subprocess.Popen(
        [*executable("evaluate"), *map(str, words)],
        env=stages.environment, cwd=stages.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        # Tests that run in the background ignore it, and hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    said = [process.stderr.readline() for _ in range(2)]
    assert {line.split()[0] for line in said} == {"right", "wrong"}
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number, err
    assert time.monotonic() - began < 20
    assert "interrupted: 2 of 3 variants were judged" in err
    partial = stages.show(out.strip())
    assert not partial["complete"]
    assert len(partial["variants"]) == 2
    whole = stages.run("evaluate", "@capture", folder, *LIMIT, "--json").must().manifest
    assert len(whole["variants"]) == 3
    # The time limit is a part of the question; with the same one nothing is judged again.
    (folder / "zzz.hsaco").unlink()
    rest = stages.run("evaluate", *words[:2], "--timeout", 60, "--json").must().manifest
    assert rest["variants"] == partial["variants"]


def test_one_that_takes_too_much_memory_is_not_judged(stages, variants):
    folder = variants("right", "large")
    done = stages.run("evaluate", "@capture", folder, "--max-memory", 600, "--json").must()
    assert outcomes(done.manifest) == {"right.hsaco": "right", "large.hsaco": "unjudged"}
    assert "--max-memory" in done.err
    (folder / "right.hsaco").unlink()
    assert stages.run("evaluate", "@capture", folder, "--max-memory", 600).code == 4


def test_names_are_whatever_a_path_may_be(stages, way):
    folder = stages.folder / "a b"
    folder.mkdir()
    names = ["line\nfeed.hsaco", "-x.hsaco", "\x1b[31mred.hsaco", os.fsdecode(b"\xff.hsaco"), "$(id).hsaco"]
    for name in names:
        shutil.copy(way("right"), folder / name)
    done = stages.run("evaluate", "@capture", folder, "--json").must()
    assert len(done.manifest["variants"]) == len(names)
    assert "\x1b" not in done.err
    assert "line\\nfeed.hsaco" in done.err


def test_none_is_right(stages, variants):
    assert "rank" not in stages.run("evaluate", "@capture", variants("half")).must(1).err
    nothing = stages.run("evaluate", "@capture", "-", stdin="").must(3)
    assert "names no variant" in nothing.err
    assert "no such file" in stages.run("evaluate", "@capture", "missing.hsaco").must(2).err
    gone = stages.run("evaluate", "@capture", "-", stdin="missing.hsaco\n").must(1)
    assert "No such file" in gone.err


def test_a_reader_that_is_gone_ends_it_by_sigpipe(stages, variants):
    folder = variants("right")
    words = " ".join([*executable("evaluate"), "@capture", str(folder)])
    done = subprocess.run(
        ["bash", "-c", f"{words} | false; exit ${{PIPESTATUS[0]}}"],
        env=stages.environment, cwd=stages.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 141, done.stderr
    assert "was made, but the program that reads standard output has ended" in done.stderr


def test_a_terminal_gets_better_ones_only(stages, variants):
    folder = variants("right", "half", "faster")
    shown = stages.shown("evaluate", "@capture", folder, "--workers", 1)
    assert "half.hsaco" not in shown
    assert "faster.hsaco" in shown
    assert "3 variants: 2 right, 1 wrong" in shown


def test_a_reader_of_lines_that_ends_early_does_not_end_the_evaluation(stages, variants):
    folder = variants("right", "half", "faster")
    words = " ".join([*executable("evaluate"), "@capture", str(folder)])
    done = subprocess.run(
        ["bash", "-c", f"{words} --json --lines >(exec true) && sleep 0"],
        env=stages.environment, cwd=stages.folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["variants"]) == 3
    assert "3 variants: 2 right, 1 wrong" in done.stderr


def test_lines_on_a_full_disk_are_an_error_and_what_was_judged_stays(stages, variants):
    done = stages.run("evaluate", "@capture", variants("right"), "--lines", "/dev/full").must(3)
    assert "--lines /dev/full: No space left" in done.err
    again = stages.run("evaluate", "@capture", variants("right"), "--json").must().manifest
    assert outcomes(again) == {"right.hsaco": "right"}


def test_nothing_is_left_in_the_temporary_folder_after_an_interrupt(stages, variants):
    folder = variants("right", "for_ever")
    place = stages.folder / "temporary"
    place.mkdir()
    process = subprocess.Popen(
        [*executable("evaluate"), "@capture", str(folder), "--workers", "2"],
        env={**stages.environment, "TMPDIR": str(place)}, cwd=stages.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr.readline().startswith("right")
    process.terminate()
    process.communicate(timeout=60)
    assert list(place.iterdir()) == []


def test_nothing_is_left_by_compilers_that_are_interrupted(stages):
    source = (stages.folder / "project/kernel_variant.cpp").read_text()
    folder, place = stages.folder / "sources", stages.folder / "temporary"
    folder.mkdir()
    place.mkdir()
    for number in range(20):
        (folder / f"{number}.hip").write_text(f"{source}\n// {number}\n")
    process = subprocess.Popen(
        [*executable("evaluate"), "project", str(folder)],
        env={**stages.environment, "TMPDIR": str(place)}, cwd=stages.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr.readline().startswith("right")  # the others compile meanwhile
    process.terminate()
    process.communicate(timeout=60)
    assert list(place.iterdir()) == []
