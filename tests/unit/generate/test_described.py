"""Files in capture/ that hold the contents of variables."""

import json

import executables
import manifest_examples
import pytest

from kerncap_stages.generate import inputs
from kerncap_stages.generate.described import describe_capture
from kerncap_stages.manifests import dump, load_as
from kerncap_stages.manifests.capture import Capture

CODE = manifest_examples.digest("code object")


def with_variables(*symbols):
    (variable,) = manifest_examples.capture().module_variables
    named = [variable.model_copy(update={"symbol": symbol}) for symbol in symbols]
    return manifest_examples.capture().model_copy(update={"module_variables": tuple(named)})


def blobs(files):
    return [each["blob"] for each in json.loads(files["capture/module_variables.json"])["variables"]]


def test_each_variable_has_a_file_with_its_contents_before_the_dispatch():
    pre = manifest_examples.digest("pre")
    files = describe_capture(with_variables("table", "ns::table"), "capture", {pre: b"contents"})
    assert blobs(files) == [f"module_variables/{CODE[:16]}_{name}.bin" for name in ("table", "ns__table")]
    assert [files[f"capture/{name}"] for name in blobs(files)] == [b"contents"] * 2


@pytest.mark.parametrize(
    "symbols",
    [("a:b", "a/b", "a b"), ("../../x",) * 3, ("x" * 5000, "x" * 5001), ("a", "a", "a-2", "\u00e9\n")],
)
def test_names_of_files_are_plain_short_and_differ(symbols):
    contents = {manifest_examples.digest("pre"): b"contents"}
    names = blobs(describe_capture(with_variables(*symbols), "capture", contents))
    assert len(set(names)) == len(symbols)
    for name in names:
        folder, slash, file = name.partition("/")
        assert (folder, slash) == ("module_variables", "/")
        assert len(file) <= 255
        assert file.isascii()
        assert all(char.isalnum() or char in "._-" for char in file)


def test_contents_are_read_unless_they_are_large(store, monkeypatch):
    plain = load_as(store, executables.publish_capture(store), Capture)
    memory = plain.regions[0].pre
    (variable,) = manifest_examples.capture().module_variables
    whole = {"pre": memory, "post": memory, "size_bytes": 1 << 20, "written": (), "written_size_bytes": 0}
    made = plain.model_copy(update={"module_variables": (variable.model_copy(update=whole),)})
    with store.begin_transaction() as transaction:
        capture = transaction.publish(dump(made), "capture", [plain.parents[0].digest])
    part = inputs.read_part(store, capture)
    files = describe_capture(part.capture, "capture", part.contents)
    assert files[f"capture/{blobs(files)[0]}"] == bytes(range(256)) * 4096
    monkeypatch.setattr(inputs, "MAX_VARIABLE_BYTES", (1 << 20) - 1)
    part = inputs.read_part(store, capture)
    files = describe_capture(part.capture, "capture", part.contents)
    assert blobs(files) == [memory]
    assert not [name for name in files if name.startswith("capture/module_variables/")]
