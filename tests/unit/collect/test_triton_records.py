"""What a program wrote as the record of a Triton kernel: never trusted, and never needed."""

from __future__ import annotations

import json

import manifest_examples
import pytest

from kerncap_stages.collect.triton_records import TritonRecords
from kerncap_stages.store import Store

CODE = manifest_examples.digest("code")


@pytest.fixture
def records(tmp_path):
    return TritonRecords(tmp_path / "records")


def find(records, tmp_path):
    with Store.open(tmp_path / "store").begin_transaction() as transaction:
        return records.find(CODE, transaction)


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", "null", "[" * 100_000,
        json.dumps({"triton_folder": "", "python": "", "functions": [{"file": "../../etc/passwd"}]}),
        json.dumps({"triton_folder": "", "python": "", "functions": [{"file": f"{CODE}.py"}]}),
        json.dumps({"triton_folder": "", "python": "", "functions": []}),
        json.dumps({"triton_folder": 1, "python": "", "functions": []}),
    ],
)  # fmt: skip
def test_a_record_that_cannot_be_read_costs_no_capture(records, tmp_path, text):
    (tmp_path / "records" / f"{CODE}.json").write_text(text)
    assert find(records, tmp_path) is None
    (line,) = records.read_errors()
    assert line.startswith("the captured kernel's record cannot be read: ")


def test_no_record_is_no_error(records, tmp_path):
    assert find(records, tmp_path) is None
    assert records.read_errors() == []
