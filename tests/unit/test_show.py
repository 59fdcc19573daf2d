"""kc-show: pages, lists, trees and JSON of what a store holds."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import signal
import subprocess

import executables
import manifest_examples as examples
import pytest

from kerncap_stages.digest import ManifestRef
from kerncap_stages.manifests import KINDS, dump
from kerncap_stages.store.artifacts import make_list_entry


@pytest.fixture
def show(store):
    return lambda *arguments, **options: executables.run("kc-show", *arguments, store=store.root, **options)


@pytest.fixture
def capture(store):
    return str(executables.publish_capture(store))


def test_page_shows_the_capture_and_its_place_in_the_store(show, capture, store):
    store.name("before-tuning", store.resolve(capture))
    done = show(capture)
    assert done.returncode == 0
    assert done.stderr == ""
    for part in (f"capture {capture}", "before-tuning", "./app --size 512", "MiB, ", "on disk", "shared",
                 "scale(float*, float*, float, int)", "0x7f0000000000"):  # fmt: skip
        assert part in done.stdout


@pytest.mark.parametrize("manifest", examples.every_manifest(), ids=lambda m: m.kind)
def test_every_kind_is_shown_even_where_its_objects_are_missing(show, store, manifest):
    digest = executables.publish(store, manifest)
    done = show(digest[:12])
    assert done.returncode == 0
    assert f"{manifest.kind} {digest}" in done.stdout


def test_json_is_the_stored_manifest(show, capture):
    done = show("--json", capture)
    assert hashlib.sha256(done.stdout.encode()).hexdigest() == capture
    assert json.loads(done.stdout)["kind"] == "capture"


def test_artifacts_come_through_a_pipe(show, store, capture):
    profile = str(store.resolve("@profile"))
    done = show("--json", piped=f"{capture}\n{profile}\n")
    assert [json.loads(line)["kind"] for line in done.stdout.splitlines()] == ["capture", "profile"]


def test_empty_pipe_means_that_the_stage_before_failed(show):
    done = show(piped="")
    assert done.returncode == 3
    assert "the stage before this one failed" in done.stderr


@pytest.fixture
def listed(store):
    return lambda **options: executables.run("kc-store", "ls", store=store.root, **options)


def test_the_latest_artifact_is_shown_without_arguments(show, store, capture):
    done = show()
    assert done.returncode == 0
    assert f"capture {capture}" in done.stdout
    assert "no artifact given: using the latest (@)" in done.stderr
    profile = executables.publish(store, examples.profile().model_copy(update={"wall_ns": 1}))
    assert f"profile {profile}" in show().stdout
    assert hashlib.sha256(show("--json").stdout.encode()).hexdigest() == profile
    assert show("--tree").stdout.startswith(profile[:12])


def test_the_list_has_kernels_and_commands(listed, capture):
    lines = listed().stdout.splitlines()
    assert capture[:12] in lines[2]
    assert "scale(float*, float*, float, int), dispatch 2" in lines[2]
    assert "./app --size 512" in lines[3]


def test_a_list_has_the_name_of_a_kernel_in_one_line(listed, store):
    name = f"void at::native::vectorized_elementwise_kernel<4, {'tanh_kernel_cuda::' * 20}lambda>(int)"
    example = examples.capture()
    kernel = example.kernel.model_copy(update={"demangled_name": name})
    executables.publish(store, example.model_copy(update={"kernel": kernel}))
    (line,) = [line for line in listed(env={"COLUMNS": "160"}).stdout.splitlines() if "elementwise" in line]
    assert "vectorized_elementwise_kernel" in line
    assert line.endswith("dispatch 2")


def publish_long(store, size_bytes, number=0):
    content = json.loads(dump(examples.profile())) | {"made_by": "x" * size_bytes, "wall_ns": number}
    payload = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    return executables.publish(store, payload.encode())


@pytest.mark.usefixtures("capture")
def test_a_long_manifest_is_passed_over_and_named(show, listed, store):
    long = publish_long(store, 40 << 20)
    for done in (listed(), show("--tree", long)):
        assert done.returncode == 0
        assert long[:12] in done.stdout
        assert "not read: its manifest has 40.0 MiB" in " ".join(done.stdout.split())
    assert "scale(float*, float*, float, int), dispatch 2" in listed().stdout


def test_manifests_that_are_long_together_are_passed_over(listed, store):
    for number in range(6):
        publish_long(store, 4 << 20, number)
    text = listed().stdout
    assert text.count("not read: its manifest has 4.00 MiB") == 3
    assert text.count("./app --size 512") == 3


def test_the_sharing_line_has_a_bound_and_says_so(show, store, capture):
    with store.begin_transaction() as transaction:
        profiles = [examples.profile().model_copy(update={"wall_ns": number}) for number in range(600)]
        digests = [transaction.put_bytes(dump(profile)) for profile in profiles]
        transaction.publish_listed([(digest, make_list_entry("profile", [], 1)) for digest in digests])
    text = " ".join(show(capture).stdout.split())
    assert "artifacts; `kc-store du" in text
    assert " of 602 artifacts" in text


def test_a_tree_shows_the_parents_of_an_artifact_once(show, store):
    """Else 16 levels of two parents each would be 65,536 lines."""
    above = (executables.publish(store, examples.profile()),)
    for level in range(16):
        above = tuple(
            executables.publish(
                store, examples.profile().model_copy(update={
                    "parents": tuple(ManifestRef.to(digest) for digest in above), "wall_ns": 2 * level + side,
                }),
            )
            for side in range(2)
        )  # fmt: skip
    done = show("--tree", above[0])
    assert done.returncode == 0
    assert 2 * 17 < len(done.stdout.splitlines()) < 4 * 17
    assert "(see above)" in done.stdout


def test_artifacts_are_listed_as_json(store, capture):
    store.name("kept", store.resolve(capture))
    listed = json.loads(executables.run("kc-store", "ls", "--json", store=store.root).stdout)
    assert [(entry["digest"], entry["kind"], entry["names"]) for entry in listed] == [
        (str(entry.digest), entry.kind, list(entry.names)) for entry in store.list_artifacts()
    ]
    assert (listed[0]["digest"], listed[0]["kind"], listed[0]["names"]) == (capture, "capture", ["kept"])


def test_the_latest_is_shown_on_a_terminal(capture, store):
    terminal, other_end = pty.openpty()
    done = executables.run("kc-show", store=store.root, stdin=other_end)
    os.close(terminal)
    os.close(other_end)
    assert capture[:12] in done.stdout


def test_empty_store_says_what_to_do(show, store):
    for arguments in ((), ("@",)):
        done = show(*arguments)
        assert (done.returncode, done.stdout) == (3, "")
        assert f"there is no artifact yet in the store {store.root}" in done.stderr
        assert "next: `kc-profile -- ./app` makes one" in done.stderr
    assert "`kc-locate @capture` makes one" in show("@source").stderr
    assert "there is no kind of artifact called 'captures'" in show("@captures").stderr


def test_missing_store_is_named(show, tmp_path):
    done = show("--store", tmp_path / "nowhere")
    assert done.returncode == 3
    assert str(tmp_path / "nowhere") in done.stderr
    assert not (tmp_path / "nowhere").exists()


def test_tree_leads_to_the_first_parent(show, capture, store):
    done = show("--tree", capture)
    first, second = done.stdout.splitlines()
    assert first.startswith(capture[:12])
    assert str(store.resolve("@profile"))[:12] in second


def test_tree_shows_a_missing_parent(show, store):
    digest = executables.publish(store, examples.capture())
    done = show("--tree", digest)
    assert done.returncode == 0
    assert "cannot be read" in done.stdout
    assert examples.digest("profile")[:12] in done.stdout


@pytest.mark.parametrize(
    "text", ["0123456789ab", "nobody", "@", "@capture", "../../etc/passwd", "", "\x1b[31m"]
)
def test_unknown_artifact_ends_with_3_and_the_next_step(show, text):
    done = show(text)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "next: " in done.stderr
    assert "\x1b" not in done.stderr


def test_the_next_step_finds_the_store_that_was_typed(show, store):
    done = show("nobody", "--store", store.root, env={"KERNCAP_STORE": ""})
    assert f"next: `kc-store ls --store {store.root}` lists the artifacts" in done.stderr


def test_ambiguous_start_lists_the_candidates(show, store):
    digests = []
    for number in range(600):
        profile = examples.profile().model_copy(update={"wall_ns": number})
        digests.append(executables.publish(store, profile))
        twins = [digest for digest in digests if digest[:4] == digests[-1][:4]]
        if len(twins) > 1:
            break
    done = show(twins[0][:4])
    assert done.returncode == 2
    for twin in twins:
        assert twin[:12] in done.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [({"schema_version": 99}, "schema version 99"), ({"surprise": 1}, "surprise"), ({"kind": "art"}, "kind")],
)
def test_unreadable_manifest_is_refused_by_name(show, listed, store, change, message):
    content = json.loads(dump(examples.profile())) | change
    payload = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    digest = executables.publish(store, payload.encode(), "profile")
    for arguments in ((digest,), ("--json", digest)):
        done = show(*arguments)
        assert done.returncode == 3
        assert digest[:12] in done.stderr
        assert message in done.stderr
        assert done.stdout == ""
    assert listed().returncode == 0  # one bad artifact does not hide the others


def test_hostile_name_reaches_no_terminal(show, listed, store):
    hostile = "\x1b]0;owned\x07\x1b[2J[bold]x[/bold]\u202e"
    kernel = examples.hsa_kernel(demangled_name=hostile, mangled_name=hostile)
    digest = executables.publish(store, examples.capture(kernel=kernel))
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm"}
    for done in (show(digest, env=terminal), listed(env=terminal), show("--tree", digest, env=terminal)):
        assert "\x1b]" not in done.stdout
        assert "\x1b[2J" not in done.stdout
        assert "\u202e" not in done.stdout
        assert "\\x1b]0;owned" in done.stdout.replace("\n", "")


def test_about_names_every_native_part(show):
    done = show("--about")
    assert done.returncode == 0
    for part in ("core", "softgpu", "hsa", "cuda", "Python", "pydantic"):
        assert part in done.stdout
    for tool in ("hipcc", "nvcc", "ptxas", "CUPTI"):
        assert tool in done.stdout
    facts = json.loads(show("--about", "--json").stdout)
    parts = {part["name"]: part for part in facts["native_parts"]}
    assert parts["core"]["built"] is True
    for part in parts.values():
        assert part["built"] == (part["left_out_reason"] is None)


def test_about_lists_what_a_driver_says_and_survives_one_that_says_nothing(show, tmp_path):
    """The driver here is a library of ours: no GPU is needed to list one."""
    answering = """
        int cuInit(unsigned flags) { return 0; }
        int cuDriverGetVersion(int* version) { *version = 13010; return 0; }
        int cuDeviceGetCount(int* count) { *count = 1; return 0; }
        int cuDeviceGetName(char* name, int room, int device) { name[0] = 'G'; name[1] = 0; return 0; }
        int cuDeviceGetAttribute(int* value, int which, int gpu) { *value = which == 75 ? 9 : 0; return 0; }
    """
    refusing = answering.replace("name[1] = 0; return 0", "name[1] = 0; return 1")
    for source, expected in (
        (answering, [{"name": "G", "architecture": "sm_90", "driver": "of CUDA 13.1"}]),
        (refusing, []),
        ("int nothing;", []),
    ):
        (tmp_path / "driver.c").write_text(source)
        words = ["cc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "driver.c"]
        subprocess.run(words, check=True)
        named = tmp_path / "libcupti.so.13"
        named.touch()
        env = {"LD_LIBRARY_PATH": str(tmp_path), "KERNCAP_CUPTI": f"{tmp_path}/gone:{named}"}
        facts = json.loads(show("--about", "--json", env=env).stdout)
        assert [gpu for gpu in facts["gpus"] if gpu["driver"] != "amdgpu"] == expected
        assert {tool["name"]: tool["path"] for tool in facts["tools"]}["CUPTI"] == str(named)


@pytest.mark.parametrize("kind", KINDS)
def test_artifacts_are_completed_by_the_shell(store, kind):
    digest = executables.publish(store, next(m for m in examples.every_manifest() if m.kind == kind))
    store.name("my-artifact", store.resolve(digest))

    def complete(*words: str) -> list[str]:
        variables = {
            "_KC_SHOW_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(("kc-show", *words)),
            "COMP_CWORD": str(len(words)),
        }
        return executables.run("kc-show", store=store.root, env=variables).stdout.split()

    assert complete("my-") == ["my-artifact"]
    assert complete("@") == [f"@{kind}", "@"]
    assert complete("@", kind[:2]) == [f"@{kind}"]  # bash has cut `@` off, and replaces both
    assert complete(digest[:6]) == [digest[:12]]
    assert complete("zzz") == []


def test_completion_is_silent_where_there_is_no_store(tmp_path):
    variables = {"_KC_SHOW_COMPLETE": "complete_bash", "COMP_WORDS": "kc-show @", "COMP_CWORD": "1"}
    done = executables.run("kc-show", store=tmp_path / "nowhere", env=variables)
    assert done.stdout.strip() == ""
    assert done.stderr == ""
    assert not (tmp_path / "nowhere").exists()


def test_reader_of_a_page_may_go(capture, store):
    reader, writer = os.pipe()
    os.close(reader)
    done = executables.run("kc-show", capture, store=store.root, capture_output=False, stdout=writer,
                           stderr=subprocess.PIPE)  # fmt: skip
    os.close(writer)
    assert done.returncode == -signal.SIGPIPE
    assert done.stderr == ""
