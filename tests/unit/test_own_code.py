"""The digests of the package's own code: two verdicts by different code can be told apart."""

from __future__ import annotations

import os

import pytest

from kerncap_stages import __version__
from kerncap_stages.machine import identity
from kerncap_stages.machine.own_code import digest_code, stamp_code


@pytest.fixture
def package(tmp_path):
    """A package like the installed one."""
    folder = tmp_path / "kerncap_stages"
    for name in ("judge.py", "validate/evidence.py", "lib/kc-replay-hsa", "_native.cpython-314.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"limit = 16\n")
    return folder


@pytest.fixture(autouse=True)
def _forget():
    digest_code.cache_clear()
    yield
    digest_code.cache_clear()


def edit(file, content):
    """Edit a file of the package, whose size and time stay."""
    before = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("name", ["validate/evidence.py", "lib/kc-replay-hsa", "_native.cpython-314.so"])
def test_an_edit_of_the_code_gives_another_digest(package, name):
    before = digest_code(package)
    digest_code.cache_clear()
    assert digest_code(package) == before
    digest_code.cache_clear()
    edit(package / name, b"limit = 32\n")
    assert digest_code(package) != before


def test_a_time_or_a_file_beside_the_code_is_no_edit(package):
    before = digest_code(package)
    digest_code.cache_clear()
    os.utime(package / "judge.py", ns=(0, 0))
    for name in ("__pycache__/judge.pyc", "lib/callback_bench", "build.json"):
        (package / name).parent.mkdir(exist_ok=True)
        (package / name).write_bytes(b"else")
    assert digest_code(package) == before


def test_the_stamp_tells_of_edits_and_of_other_installations(package):
    before = stamp_code(package)
    assert stamp_code(package) == before
    os.utime(package / "validate/evidence.py", ns=(0, 0))
    edited = stamp_code(package)
    assert edited != before
    record = package.with_name(f"kerncap_stages-{__version__}.dist-info") / "RECORD"
    record.parent.mkdir()
    record.write_text("kerncap_stages/judge.py,sha256=abc,11\n")
    installed = stamp_code(package)
    assert installed != edited
    edit(record, b"kerncap_stages/judge.py,sha256=def,11\n")
    assert stamp_code(package) != installed


def test_other_code_is_another_machine_for_the_cache_of_verdicts(monkeypatch):
    """So no verdict of an older judge is served as one of this one."""
    before = identity.identify_machine("gfx90a")
    assert identity.identify_machine("gfx90a") == before
    monkeypatch.setattr(identity, "stamp_code", lambda: "another")
    assert identity.identify_machine("gfx90a") != before
