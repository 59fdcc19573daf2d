"""What a stage with nothing to do reads: views that say what the models say, and keys of requests."""

from __future__ import annotations

import json
from pathlib import Path

import manifest_strategies
import pytest
from executables import publish_capture
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerncap_stages.store.remembered as under_test
from kerncap_stages.generate.request import make_project_key
from kerncap_stages.locate.known_source import summarise_source
from kerncap_stages.locate.options import Options
from kerncap_stages.manifests import KINDS, SCHEMA_VERSIONS, View, dump, find_model, open_view
from kerncap_stages.manifests.os_strings import to_os_string
from kerncap_stages.manifests.profile import Profile
from kerncap_stages.pages.verdict import format_footer, format_lines
from kerncap_stages.project.checkout import find_checkout
from kerncap_stages.project.default_folder import choose_default_folder
from kerncap_stages.store import Store
from kerncap_stages.store.remembered import find_remembered, load_known, load_remembered, make_request_key

ANY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def view(manifest) -> View:
    return View(json.loads(dump(manifest)))


@pytest.fixture
def store(tmp_path):
    return Store.open(tmp_path / "store")


@pytest.mark.parametrize("kind", KINDS)
def test_versions_are_those_of_the_models(kind):
    assert find_model(kind).model_fields["schema_version"].default == SCHEMA_VERSIONS[kind]


@ANY
@given(manifest_strategies.manifests("validation"))
def test_a_view_of_a_verdict_reads_like_its_model(manifest):
    assert format_footer(view(manifest)) == format_footer(manifest)
    assert list(format_lines(view(manifest), verbose=True)) == list(format_lines(manifest, verbose=True))


@ANY
@given(manifest_strategies.manifests("source"))
def test_a_view_of_a_source_reads_like_its_model(manifest):
    assert summarise_source(view(manifest)) == summarise_source(manifest)
    assert [(to_os_string(entry.path), entry.digest) for entry in view(manifest).consulted] == [
        (to_os_string(entry.path), entry.digest) for entry in manifest.consulted
    ]


@ANY
@given(manifest_strategies.manifests("reproducer"), st.booleans())
def test_a_view_of_a_project_reads_like_its_model(manifest, force):
    digest = make_request_key("any")
    nowhere = Path("/nonexistent")
    assert find_checkout(digest, view(manifest), nowhere, force=force) is None
    assert choose_default_folder(view(manifest)) == choose_default_folder(manifest)


def test_a_key_names_all_of_a_request_and_the_version(monkeypatch):
    keys = {
        make_request_key("locate", capture="a"),
        make_request_key("locate", capture="b"),
        make_request_key("validate", capture="a"),
        make_request_key("locate", capture="a", more=None),
    }
    monkeypatch.setattr(under_test, "__version__", "0.0.0")
    keys.add(make_request_key("locate", capture="a"))
    assert len(keys) == 5


def test_paths_that_are_not_utf_8_have_keys():
    folder = Path(b"/latin-\xe9".decode(errors="surrogateescape"))
    digest = make_request_key("any")
    assert Options((folder,)).make_key(digest) != Options((Path("/latin-?"),)).make_key(digest)


@pytest.mark.parametrize("name", ["PATH", "CPATH", "ROCM_PATH", "NVCC_APPEND_FLAGS"])
def test_the_environment_of_compilers_is_part_of_a_search(monkeypatch, name):
    digest = make_request_key("any")
    before = Options().make_key(digest)
    monkeypatch.setenv(name, "/elsewhere")
    assert Options().make_key(digest) != before


def test_only_what_is_listed_and_whole_is_remembered(store):
    key, digest = make_request_key("any"), publish_capture(store)
    assert find_remembered(store, key) is None
    store.actions.put(key, digest)
    known = find_remembered(store, key)
    assert (known.digest, known.made.kind) == (digest, "capture")
    path = store.folder.find_object_path(digest)
    whole = path.read_bytes()
    path.chmod(0o600)
    path.write_bytes(whole[:-1])
    assert find_remembered(store, key) is None
    path.write_bytes(whole)
    store.remove(digest)
    assert find_remembered(store, key) is None


@pytest.fixture
def profile(store):
    """A profile that is older than the capture that was made from it."""
    capture = publish_capture(store)
    latest, before = store.list_artifacts()
    assert (latest.digest, before.kind) == (capture, "profile")
    return before.digest


def test_what_a_stage_answers_with_again_is_the_latest(store, profile):
    key = make_request_key("any")
    store.actions.put(key, profile)
    assert find_remembered(store, key).digest == profile
    assert store.resolve("@") == profile
    store.list_again(store.resolve("@capture"))
    assert store.resolve("@") != profile
    assert load_remembered(store, key, Profile)[0] == profile
    assert store.resolve("@") == profile


def test_what_is_no_answer_keeps_its_place_in_the_list(store, profile):
    key, before = make_request_key("any"), store.list_artifacts()
    store.actions.put(key, profile)
    assert load_known(store, key, Profile)[0] == profile
    assert find_remembered(store, key, lambda _made: False) is None
    assert load_remembered(store, key, Profile, lambda _made: False) is None
    assert store.list_artifacts() == before


def test_the_latest_that_answers_again_is_not_written_again(store):
    key, digest = make_request_key("any"), publish_capture(store)
    store.actions.put(key, digest)
    before = store.list_artifacts()
    assert find_remembered(store, key).digest == digest
    assert store.list_artifacts() == before


def test_a_store_of_somebody_else_answers(store, profile, monkeypatch):
    key, before = make_request_key("any"), store.list_artifacts()
    store.actions.put(key, profile)
    monkeypatch.setattr("os.geteuid", lambda: store.root.stat().st_uid + 1)
    assert find_remembered(store, key).digest == profile
    assert store.list_artifacts() == before


def test_what_was_taken_off_the_list_does_not_come_back(store, profile):
    store.remove(profile)
    store.list_again(profile)
    assert [entry.kind for entry in store.list_artifacts()] == ["capture"]


def test_another_schema_is_not_remembered(store, monkeypatch):
    key, digest = make_request_key("any"), publish_capture(store)
    store.actions.put(key, digest)
    monkeypatch.setitem(SCHEMA_VERSIONS, "capture", 99)
    assert find_remembered(store, key) is None


def test_the_templates_shape_a_project(store, monkeypatch, tmp_path):
    digest = publish_capture(store)
    before = make_project_key(store, [digest], assembly=False)
    assert make_project_key(store, [digest], assembly=True) != before
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/Makefile.j2").write_text("all:\n")
    monkeypatch.setattr("kerncap_stages.generate.request.TEMPLATES", tmp_path / "templates")
    assert make_project_key(store, [digest], assembly=False) != before


def test_a_view_has_no_members_that_are_not_there(store):
    with (
        pytest.raises(AttributeError, match="nothing_like_it"),
        open_view(store, publish_capture(store)) as capture,
    ):
        capture.nothing_like_it  # noqa: B018 - reading it is the test
