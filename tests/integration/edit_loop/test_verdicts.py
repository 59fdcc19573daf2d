"""What kc-validate says of wrong kernels, on a first dispatch and on one that only repeats it."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from stores import object_file

from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store

DISPATCHES = pytest.mark.parametrize("dispatch", [0, 1], ids=["first", "repeated"])


def validate(stages, digest, *words, code):
    done = stages.run("validate", digest, "--json", *words).must(code)
    return done.manifest, done.err


@DISPATCHES
@pytest.mark.parametrize("way", ["right", "faster"])
def test_the_right_kernel_passes(on, variant, dispatch, way):
    stages, digest = on("by_symbol", dispatch)
    manifest, said = validate(stages, digest, "--variant", variant(way), code=0)
    assert "Result: PASS  (byte-exact, 5 of 5 regions identical)" in said
    assert manifest["coverage"] == "perturbed"
    (tried,) = (line for line in said.splitlines() if line.startswith("Tried: "))
    fresh = manifest["fresh_states"]
    assert fresh >= 2
    changed = manifest["pre_states"] - 1 - fresh
    assert f"captured state, {changed} changed, {fresh} fresh (seed {manifest['seed']})," in tried
    assert f"{manifest['variant_runs']} runs" in tried
    assert (
        len(
            re.findall(
                r"(?m)^Fixed: scalar arguments, sizes, .* work-groups of .*`kc-capture --cases N`", said
            )
        )
        == 1
    )


@DISPATCHES
def test_a_kernel_that_writes_nothing_fails(on, variant, dispatch):
    stages, digest = on("by_symbol", dispatch)
    manifest, said = validate(stages, digest, "--variant", variant("nothing"), code=1)
    assert "does not write it" in said
    assert not any(region["passed"] for region in manifest["regions"] if region["elements_out_of_bounds"])


@DISPATCHES
def test_a_kernel_that_writes_half_fails_and_says_where(on, variant, dispatch):
    stages, digest = on("by_symbol", dispatch)
    manifest, said = validate(stages, digest, "--variant", variant("half"), code=1)
    assert "outputs differ from those of the captured kernel" in said
    singles = next(region for region in manifest["regions"] if region["name"].startswith("singles"))
    assert singles["elements_out_of_bounds"] == 100
    assert 4 * 100 <= singles["worst"]["offset_bytes"] < 4 * 200
    columns = len(singles["heat"])
    assert all(
        i * singles["size_bytes"] // columns >= 4 * 100 - 4 for i, n in enumerate(singles["heat"]) if n
    )


def test_a_kernel_that_reads_lds_before_it_writes_it_fails(on, variant):
    stages, digest = on("by_symbol", 0)
    validate(stages, digest, "--variant", variant("unset_lds"), code=1)


@DISPATCHES
@pytest.mark.parametrize("way", ["outside", "into_input"])
@pytest.mark.parametrize("flags", [(), ("--tolerance", "1e9")], ids=["exact", "tolerant"])
def test_a_write_outside_fails_whatever_the_bounds(on, variant, dispatch, way, flags):
    stages, digest = on("by_symbol", dispatch)
    manifest, said = validate(stages, digest, "--variant", variant(way), *flags, code=1)
    assert "writes where the captured kernel does not" in said
    assert manifest["stray_writes"][0]["size_bytes"] <= 4
    assert "STRAY" in said


@DISPATCHES
@pytest.mark.parametrize("kernel", ["by_symbol", "by_source"])
def test_one_ulp_fails_without_flags_and_passes_with_its_bound(on, variant, dispatch, kernel):
    stages, digest = on(kernel, dispatch)
    manifest, _ = validate(stages, digest, "--variant", variant("one_ulp"), code=1)
    failed = [region for region in manifest["regions"] if not region["passed"]]
    kinds = {region["name"].split(" ")[0]: region["element_type"] for region in failed}
    assert kinds == {"singles": "fp32", "halves": "fp16", "sink.values": "fp64", "pairs": "fp32"}
    assert {region["max_ulp"] for region in failed} == {1}
    assert not manifest["stray_writes"]
    _, said = validate(stages, digest, "--variant", variant("one_ulp"), "--ulp", "1", code=0)
    assert "Result: PASS  (numeric" in said
    validate(stages, digest, "--variant", variant("two_ulp"), "--ulp", "1", code=1)


def test_outputs_of_unknown_type_are_compared_by_bytes_and_said_to_be(on, variant):
    # The symbol says Pair*, and only the source could tell what that is.
    stages, digest = on("by_symbol", 0, is_located=False)
    manifest, said = validate(stages, digest, "--variant", variant("one_ulp"), "--ulp", "1", code=1)
    assert "unknown type" in said
    assert "--dtype" in said
    failed = {region["name"].split(" in ")[0] for region in manifest["regions"] if not region["passed"]}
    # By its value a Sink is not known either: nothing says that a pointer is in it.
    assert len(failed) == 2
    assert "argument 5 (Pair*)" in failed


def test_a_given_type_holds_for_all_outputs(on, variant):
    stages, digest = on("by_symbol", 0)
    manifest, _ = validate(stages, digest, "--variant", variant("right"), "--dtype", "bf16", code=0)
    assert {region["element_type"] for region in manifest["regions"]} == {"bf16"}
    stages.run("validate", digest, "--variant", variant("right"), "--dtype", "float").must(2)


@pytest.mark.parametrize(
    "flags", [("--tolerance", "0.01"), ("--rtol", "0.005"), ("--tolerance", "1", "--rtol", "1")]
)
def test_absolute_and_relative_bounds(on, variant, flags):
    stages, digest = on("by_source", 0)
    validate(stages, digest, "--variant", variant("two_ulp"), *flags, code=0)


def test_a_nan_is_counted_and_fails(on, variant):
    stages, digest = on("by_symbol", 0)
    manifest, said = validate(stages, digest, "--variant", variant("nan"), "--tolerance", "1e30", code=1)
    singles = next(region for region in manifest["regions"] if region["name"].startswith("singles"))
    assert (singles["nan_actual"], singles["nan_expected"]) == (1, 0)
    assert singles["worst"]["offset_bytes"] == 28
    assert "NaN 1 (expected 0)" in said
    assert "max_error = nan" in said


@DISPATCHES
def test_in_place_kernels_are_judged_from_other_states(on, variant, dispatch):
    stages, digest = on("accumulate", dispatch)
    validate(stages, digest, "--variant", variant("right"), code=0)
    validate(stages, digest, "--variant", variant("nothing"), code=1)
    manifest, _ = validate(stages, digest, "--variant", variant("right"), "--ulp", "0", code=0)
    # Captured, perturbed; fresh values, few of them twice, other signs twice, more zeros.
    assert manifest["pre_states"] == 8


def test_only_the_captured_state_is_tried_when_it_must_be_quick(on, variant):
    stages, digest = on("by_symbol", 1)
    manifest, said = validate(stages, digest, "--variant", variant("nothing"), "--quick", code=0)
    assert manifest["coverage"] == "difference"
    assert manifest["pre_states"] == 1
    assert "Not full: --quick left out" in said
    assert "Earlier:" not in said
    (full,) = re.findall(r"; full: `kc-(.*)`", said)
    failed = stages.run(*shlex.split(full)).must(1)
    assert "Not full" not in failed.err
    verdict = json.loads(failed.out)
    _, said = validate(stages, digest, "--variant", variant("nothing"), "--quick", code=0)
    (named,) = re.findall(r"Earlier: FAIL \(byte-exact\) on the same code: `kc-show (\w+)`", said)
    assert stages.show(named) == verdict
    assert "PASS, byte exact, not full" in stages.run("store", "ls", "--kind", "validation").must().out
    assert "PASS (captured state only)" in stages.run("show", "@validation").must().out


def test_without_a_variant_the_baseline_is_checked(on):
    stages, digest = on("by_symbol", 0)
    manifest, said = validate(stages, digest, code=0)
    assert manifest["mode"] == "baseline"
    assert manifest["baseline_runs"] == 2
    assert "Result: PASS  (baseline)" in said


def test_the_captured_kernel_and_a_variant_are_not_both_what_is_checked(on, variant):
    stages, digest = on("by_symbol", 0)
    done = stages.run("validate", digest, "--baseline", "--variant", variant("nothing")).must(code=2)
    assert "leave one of them out" in done.err


def test_nothing_changed_returns_at_once_and_fresh_does_not(on, variant):
    stages, digest = on("by_symbol", 0)
    words = (digest, "--variant", variant("right"))
    first = stages.run("validate", *words).must().digests
    assert stages.run("validate", *words).must().digests == first
    assert stages.run("validate", *words, "--fresh").must().digests != first
    assert stages.run("validate", *words, "--ulp", "1").must().digests != first


def test_a_verdict_that_is_remembered_is_the_latest(on, variant):
    stages, digest = on("by_symbol", 0)
    passed = stages.run("validate", digest, "--quick", "--variant", variant("right")).must().digests
    failed = stages.run("validate", digest, "--quick", "--variant", variant("half")).must(1).digests
    assert stages.run("show", "--json", "@validation").must().manifest["passed"] is False
    assert stages.run("validate", digest, "--quick", "--variant", variant("right")).must().digests == passed
    assert stages.run("show", "--json", "@validation").must().manifest["passed"] is True
    assert failed != passed


def test_a_store_with_a_line_break_in_its_path_is_replayed_from(on):
    stages, digest = on("by_symbol", 0, is_located=False)
    stages.store = stages.store.rename(stages.store.with_name("line\nbreak\\n"))
    stages.run("replay", digest).must()


def test_replays_of_the_baseline_are_not_repeated_for_another_variant(on, variant):
    stages, digest = on("by_symbol", 1)
    first, _ = validate(stages, digest, "--variant", variant("right"), code=0)
    second, _ = validate(stages, digest, "--variant", variant("half"), code=1)
    # A variant that fails is not tried from each state that one that passes is.
    assert second["baselines"]
    assert {replay["key"] for replay in second["baselines"]} <= {
        replay["key"] for replay in first["baselines"]
    }
    store = Store.open(stages.store)
    for replay in second["baselines"]:
        listed = store.actions.get(replay["key"])
        assert replay["key"] in [each["key"] for each in json.loads(store.get(listed))["baselines"]]


def test_the_report_shows_where_outputs_differ(on, variant):
    stages, digest = on("by_symbol", 0)
    mine, report = stages.folder / "mine", stages.folder / "report"
    mine.write_text("not the report's")
    report.mkdir()
    (report / "index.html").symlink_to(mine)
    stages.run("validate", digest, "--variant", variant("half"), "--report", "report").must(1)
    assert mine.read_text() == "not the report's"
    page = (report / "index.html").read_text()
    assert "FAIL" in page
    assert "singles (float*)" in page
    pictures = sorted(path.name for path in (stages.folder / "report").glob("*.png"))
    assert pictures
    assert all(name in page for name in pictures)
    assert all(
        (stages.folder / "report" / name).read_bytes().startswith(b"\x89PNG\r\n\x1a\n") for name in pictures
    )


def test_a_report_that_cannot_be_written_does_not_hide_the_verdict(on, variant):
    stages, digest = on("by_symbol", 0)
    (stages.folder / "report/index.html").mkdir(parents=True)
    done = stages.run("validate", digest, "--variant", variant("half"), "--report", "report").must(4)
    assert "Result: FAIL" in done.err
    assert "kc-validate: error: cannot write the report in report: " in done.err
    assert len(done.out.split()) == 1


def test_the_heat_map_is_in_the_terminal(on, variant):
    stages, digest = on("by_symbol", 0)
    said = stages.run("validate", digest, "--variant", variant("half")).must(1).err
    line = next(line for line in said.splitlines() if line.strip().startswith("["))
    assert set(line.partition("[")[2].partition("]")[0]) & set(".:-=+*#%@")


def test_a_variant_that_is_no_code_object_is_an_error_with_a_next_step(on, tmp_path):
    stages, digest = on("by_symbol", 0)
    assert "recompile" in stages.run("validate", digest, "--variant", tmp_path / "absent").must(2).err


@pytest.mark.parametrize("of", ["chunks", "lists"])
def test_kept_states_that_are_damaged_are_made_again(on, variant, of):
    """The chunks, or the lists of them, of all states that an earlier verdict's replays kept."""
    stages, digest = on("by_symbol", 0)
    first, _ = validate(stages, digest, "--variant", variant("right"), code=0)
    store = Store.open(stages.store)
    needed = store.walk([digest], kept=False).kinds
    lists = {text.removeprefix("kept:") for text in re.findall("kept:[0-9a-f]{64}", json.dumps(first))}
    chunks = {chunk for each in lists for chunk in store.read_chunk_list(each)[2]}
    damaged = (chunks if of == "chunks" else lists) - needed.keys() - {None}
    assert damaged
    for each in damaged:
        path = object_file(store, each)
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-3])
    assert all(fault.artifacts == () for fault in check_store(store).faults)
    validate(stages, digest, "--variant", variant("faster"), code=0)
    validate(stages, digest, "--variant", variant("half"), code=1)
    stages.run("store", "export", digest, "@validation", "-o", stages.folder / "archive.tar").must()
