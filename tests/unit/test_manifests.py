"""Manifests: one canonical form, nothing unknown accepted, every refusal names the artifact."""

from __future__ import annotations

import contextlib
import gc
import json
import weakref
from pathlib import Path

import manifest_examples as examples
import manifest_strategies
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kerncap_stages.digest import Digest, FileRef, ManifestRef, MemoryRef
from kerncap_stages.errors import ArtifactError, ManifestUnreadable
from kerncap_stages.manifests import KINDS, dump, load, load_as, parse, to_canonical
from kerncap_stages.manifests.base import to_os_text
from kerncap_stages.manifests.capture import Capture
from kerncap_stages.manifests.environment import Program
from kerncap_stages.manifests.files import StoredLink
from kerncap_stages.manifests.kernel import Launch
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.manifests.reproducer import ProjectFile
from kerncap_stages.manifests.schemas import make_schema
from kerncap_stages.manifests.validation import JudgeOptions, RegionResult, Validation
from kerncap_stages.validate.request import make_settings

SCHEMAS = Path(__file__).parents[2] / "schemas"
NAME = "0123456789ab"


class OneObject:
    """A store that holds one payload."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload

    def get(self, digest: Digest, *, verify: bool = True) -> bytes:  # noqa: ARG002
        return self.payload


def edited(manifest: object, **changes: object) -> bytes:
    content = json.loads(dump(manifest))
    content.update(changes)
    return (json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n").encode()


@pytest.mark.parametrize("manifest", examples.every_manifest(), ids=lambda m: m.kind)
def test_round_trip_keeps_every_byte(manifest):
    payload = dump(manifest)
    assert dump(parse(payload, NAME)) == payload
    assert payload.endswith(b"}\n")
    assert payload.count(b"\n") == 1


def test_a_manifest_from_before_a_member_was_added_is_read_and_stays_as_it_is():
    content = json.loads(dump(examples.validation()))
    for name in Validation.added:
        del content[name]
    for name in RegionResult.added:
        del content["regions"][0][name]
    payload = to_canonical(content)
    before = parse(payload, NAME)
    assert all(getattr(before, name) is None for name in Validation.added)
    assert all(getattr(before.regions[0], name) is None for name in RegionResult.added)
    assert dump(before) == payload
    # It has one form only.
    with pytest.raises(ManifestUnreadable, match="not in canonical form"):
        parse(to_canonical({**content, "options": None}), NAME)


def test_the_options_of_a_verdict_are_all_that_its_key_depends_on():
    settings = make_settings(1e-3, None, 2, "fp32", perturb=False, fresh_values=False, variant_runs=7)
    described = json.loads(JudgeOptions.model_validate(settings.describe()).model_dump_json())
    assert described == settings.describe()


def test_members_that_were_added_are_not_required():
    schema = json.loads(make_schema("validation"))
    assert not Validation.added & set(schema["required"])
    assert not RegionResult.added & set(schema["$defs"]["RegionResult"]["required"])
    assert "regions" in schema["required"]


@pytest.mark.parametrize("kind", KINDS)
def test_committed_schema_is_the_generated_one(kind):
    assert (SCHEMAS / f"{kind}.schema.json").read_text(encoding="utf-8") == make_schema(kind)


def test_no_schema_without_a_kind():
    assert {path.name for path in SCHEMAS.iterdir()} == {f"{kind}.schema.json" for kind in KINDS}


@pytest.mark.parametrize("version", [0, 1, 99, "2", None, 2.0, True])
def test_unknown_version_is_refused(version):
    with pytest.raises(ManifestUnreadable, match=f"{NAME}: capture manifest") as caught:
        parse(edited(examples.capture(), schema_version=version), NAME)
    assert caught.value.hint


def test_newer_version_says_to_install_a_newer_package():
    with pytest.raises(ManifestUnreadable, match="version 99") as caught:
        parse(edited(examples.capture(), schema_version=99), NAME)
    assert "newer" in (caught.value.hint or "")


def test_unknown_key_is_refused_and_named():
    with pytest.raises(ManifestUnreadable, match=rf"{NAME}: malformed capture manifest: surprise: "):
        parse(edited(examples.capture(), surprise=1), NAME)


def test_unknown_nested_key_is_refused_and_named():
    content = json.loads(dump(examples.capture()))
    content["regions"][0]["surprise"] = 1
    with pytest.raises(ManifestUnreadable, match=r"regions\.0\.surprise"):
        parse(json.dumps(content).encode(), NAME)


def test_missing_key_is_refused():
    content = json.loads(dump(examples.capture()))
    del content["kernarg"]
    with pytest.raises(ManifestUnreadable, match="kernarg: Field required"):
        parse(json.dumps(content).encode(), NAME)


@pytest.mark.parametrize(
    "payload",
    [b"", b"{", b"[]", b"null", b'"capture"', b"\xff\xfe", b'{"kind":7}', b'{"kind":"picture"}',
     b"[" * 100_000],
    ids=["empty", "cut", "list", "null", "text", "not-utf8", "kind-number", "kind-unknown", "deep"],
)  # fmt: skip
def test_what_is_not_a_manifest_is_refused(payload):
    with pytest.raises(ManifestUnreadable, match=f"{NAME}: not a manifest"):
        parse(payload, NAME)


@pytest.mark.parametrize(
    "payload",
    [
        dump(examples.profile())[:-1],
        dump(examples.profile()) + b"\n",
        json.dumps(json.loads(dump(examples.profile())), indent=1).encode(),
        b'{"kind":"profile",' + dump(examples.profile())[1:],
    ],
    ids=["no-newline", "two-newlines", "blanks", "key-twice"],
)
def test_other_forms_than_the_canonical_are_refused(payload):
    with pytest.raises(ManifestUnreadable, match="not in canonical form"):
        parse(payload, NAME)


def test_load_as_names_both_kinds():
    store, digest = OneObject(dump(examples.profile())), examples.digest("x")
    assert load(store, digest) == load_as(store, digest, Profile) == examples.profile()
    with pytest.raises(ArtifactError, match=f"{digest.short} is a profile, but a capture is needed"):
        load_as(store, digest, Capture)


@pytest.mark.parametrize("device_index", [7, "seven"], ids=["our validator", "pydantic's"])
def test_a_malformed_manifest_does_not_keep_the_store_that_held_it(device_index):
    content = json.loads(dump(examples.capture()))
    content["dispatch"]["device_index"] = device_index

    def read() -> weakref.ref[OneObject]:
        store = OneObject(json.dumps(content).encode())
        try:
            load(store, examples.digest("x"))
        except ManifestUnreadable as error:
            kept = error  # by this frame, which the error's own traceback keeps
        assert "malformed" in str(kept)
        return weakref.ref(store)

    held = read()
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("reference", [MemoryRef, FileRef, ManifestRef])
@pytest.mark.parametrize(
    "tail", ["", "ab", "A" * 64, "g" * 64, "../" * 22, "a" * 63, "a" * 65, "a" * 64 + "\n"]
)
def test_reference_must_be_a_prefix_and_a_digest(reference, tail):
    with pytest.raises(ValueError, match="is not a"):
        reference(reference.prefix + tail)


def test_references_of_different_kinds_are_not_exchanged():
    content = json.loads(dump(examples.capture()))
    content["regions"][0]["pre"] = content["parents"][0]
    with pytest.raises(ManifestUnreadable, match=r"regions\.0\.pre"):
        parse(json.dumps(content).encode(), NAME)


def test_reference_knows_its_digest():
    digest = examples.digest("x")
    assert MemoryRef.to(digest).digest == digest
    assert isinstance(MemoryRef.to(digest).digest, Digest)
    assert digest.short == digest[:12]


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "..", "../x", "a/../../x", "a/./b", "a//b", "a/", "./a",
             "a\\b", "a\nb", "a\x1bb", "a\x00"]
)  # fmt: skip
def test_project_path_stays_inside(path):
    with pytest.raises(ValueError, match="plain relative path"):
        ProjectFile(path=path, payload=FileRef.to(examples.digest("x")), size_bytes=0)


def test_project_paths_are_distinct_and_no_file_is_a_folder():
    content = json.loads(dump(examples.reproducer()))
    content["files"][2]["path"] = "deps"
    content["files"].sort(key=lambda file: file["path"])
    with pytest.raises(ManifestUnreadable, match="a path is that of a file and of a folder"):
        parse(json.dumps(content).encode(), NAME)


@pytest.mark.parametrize("target", ["/etc/passwd", "../..", "../../x", "a/../../../b", "a/..", "x\x1b", ""])
def test_stored_link_stays_inside(target):
    with pytest.raises(ValueError, match=r"leads out|control characters|at least 1 character"):
        StoredLink(path="sub/link", target=target)


def test_grid_in_work_items_and_in_blocks_must_agree():
    fields = examples.capture().launch.model_dump() | {"grid_blocks": (1000, 1, 1)}
    with pytest.raises(ValueError, match="grid_blocks"):
        Launch.model_validate(fields)


@pytest.mark.parametrize(
    ("text", "shown"), [("in /a\udcff/b", "in /a\\xff/b"), ("\ud800", "\\ud800"), ("\u00e9\n", "\u00e9\n")]
)
def test_remarks_may_name_paths_that_are_not_utf_8(text, shown):
    source = examples.source()
    fields = source.model_dump() | {"explanation": text, "unedited": {"same_instructions": None, "why": text}}
    made = parse(dump(type(source).model_validate(fields)), NAME)
    assert (made.explanation, made.unedited.why) == (shown, shown)


@pytest.mark.parametrize("written", [[[0, 4097]], [[4096, 1]], [[8, 8], [0, 4]], [[0, 8], [4, 8]], [[0, 0]]])
def test_write_set_is_ordered_and_inside_its_region(written):
    content = json.loads(dump(examples.capture()))
    content["regions"][0]["written"] = written
    with pytest.raises(ManifestUnreadable, match=r"regions\.0"):
        parse(json.dumps(content).encode(), NAME)


def test_region_left_out_needs_a_reason():
    content = json.loads(dump(examples.capture()))
    content["regions"][2]["left_out_reason"] = None
    with pytest.raises(ManifestUnreadable, match="needs either a pre-state or the reason why there is none"):
        parse(json.dumps(content).encode(), NAME)


def test_device_that_is_used_must_be_described():
    content = json.loads(dump(examples.capture()))
    content["environment"]["devices"] = content["environment"]["devices"][:1]
    with pytest.raises(ManifestUnreadable, match=r"devices \[1\] are used but not described"):
        parse(json.dumps(content).encode(), NAME)


def test_infinite_and_missing_numbers_survive():
    again = parse(dump(examples.validation()), NAME)
    region = again.regions[0]
    assert region.max_absolute_error == float("inf")
    assert region.max_relative_error != region.max_relative_error


def test_text_that_is_not_utf8_survives():
    hostile = b"caf\xe9\x00".strip(b"\x00").decode(errors="surrogateescape")
    program = Program(command=(to_os_text(hostile), to_os_text("plain")), working_directory="/")
    manifest = examples.profile().model_copy(update={"program": program})
    again = parse(dump(manifest), NAME)
    assert [to_os_string(argument) for argument in again.program.command] == [hostile, "plain"]


def test_manifest_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        examples.capture().kernarg = "00"


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(data=st.data())
def test_any_manifest_survives_the_round_trip(kind, data):
    manifest = data.draw(manifest_strategies.manifests(kind))
    payload = dump(manifest)
    again = parse(payload, NAME)
    assert type(again) is type(manifest)
    assert dump(again) == payload


@settings(max_examples=200)
@given(st.binary(max_size=200), st.data())
def test_damaged_manifest_is_refused_by_name(junk, data):
    payload = dump(examples.reproducer())
    at = data.draw(st.integers(0, len(payload)))
    damaged = payload[:at] + junk + payload[at + len(junk) :]
    if damaged == payload:
        return
    with contextlib.suppress(ManifestUnreadable):
        assert dump(parse(damaged, NAME)) == damaged
