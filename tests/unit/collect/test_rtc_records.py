"""What a program wrote as records of what it compiled at run time: never trusted, and never needed."""

from __future__ import annotations

import hashlib

import pytest

from kerncap_stages.collect.rtc_records import RtcRecords
from kerncap_stages.digest import Digest
from kerncap_stages.store import Store

FACTS = (("compiler", "comgr 3.0"), ("library", "/lib/c.so"), ("directory", "/"), ("target", "gfx90a"))


def write(folder, name, *fields):
    told = "".join(f"{field} {len(value)}\n{value}\n" for field, value in fields)
    (folder / name).write_text(f"kerncap-rtc 1\n{told}")


def compilation(source, output):
    return (*FACTS, ("option", "-O3"), ("name", "a.cu"), ("source", source), ("output", output))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "records"


@pytest.fixture
def records(folder):
    return RtcRecords(folder)


def find(records, tmp_path, code="code"):
    digest = Digest(hashlib.sha256(code.encode()).hexdigest())
    store = Store.open(tmp_path / "store")
    with store.begin_transaction() as transaction:
        found = records.find((digest,), transaction)
        return None if found is None else (found, bytes(transaction.get(found.source.text.digest)))


def test_code_leads_back_to_its_source_through_links(records, folder, tmp_path):
    write(folder, "1-0.rtc", *compilation("first", "object 1"))
    write(folder, "1-1.rtc", *compilation("second", "object 2"))
    write(folder, "1-2.rtc", ("input", "object 2"), ("output", "object 3"))
    write(folder, "1-3.rtc", ("input", "object 3"), ("output", "code"))
    found, text = find(records, tmp_path)
    assert text == b"second"
    assert (found.compiler, found.options, found.source.name) == ("comgr 3.0", ("-O3",), "a.cu")
    assert records.read_errors() == []


def test_code_of_several_sources_has_no_record(records, folder, tmp_path):
    write(folder, "1-0.rtc", *compilation("first", "object 1"))
    write(folder, "1-1.rtc", *compilation("second", "object 2"))
    write(folder, "1-2.rtc", ("input", "object 1"), ("input", "object 2"), ("output", "code"))
    assert find(records, tmp_path) is None
    assert records.read_errors() == ["the captured code is linked from 2 sources"]


def test_links_in_a_circle_end(records, folder, tmp_path):
    write(folder, "1-0.rtc", ("input", "code"), ("output", "code"))
    assert find(records, tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "kerncap-rtc 2\n", "kerncap-rtc 1\nsource 9\nab\n", "kerncap-rtc 1\nsource -1\nab\n"]
)
def test_a_damaged_record_costs_no_other(records, folder, tmp_path, text):
    (folder / "1-0.rtc").write_text(text)
    write(folder, "1-1.rtc", *compilation("first", "code"))
    assert find(records, tmp_path)[1] == b"first"
    assert len(records.read_errors()) == 1


@pytest.mark.parametrize(
    "fields",
    [
        (("source", "text"), ("output", "code")),
        (*FACTS, ("name", "a"), ("source_file", "../secret"), ("output", "code")),
        (*FACTS, ("name", "a"), ("source_file", "1-9.text"), ("output", "code")),
        (*FACTS, ("unknown", "a"), ("name", "a"), ("source", "text"), ("output", "code")),
    ],
)
def test_a_record_that_cannot_be_read_costs_no_capture(records, folder, tmp_path, fields):
    write(folder, "1-0.rtc", *fields)
    assert find(records, tmp_path) is None
    assert len(records.read_errors()) == 1
