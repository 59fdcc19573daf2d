"""The store on a full disk, read-only, of another user, killed while it writes, and used by many at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from stores import publish_memory, random_bytes

from kerncap_stages.errors import StoreError
from kerncap_stages.store import Store
from kerncap_stages.store.check import check_store
from kerncap_stages.store.collect import collect_garbage
from kerncap_stages.store.files import put_path

PROGRAMS = Path(__file__).parents[2] / "programs/store"
SMALL_DISK = Path(__file__).parents[2] / "helpers/small_disk.py"
MIB = 1 << 20


def program(name, *arguments):
    """Start a program of tests/programs/store; the command line to run it again is in every failure."""
    # -P: what is tested is the installed package, never the checkout.
    command = [sys.executable, "-P", PROGRAMS / name, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result_of(process, most_s=300):
    try:
        out, err = process.communicate(timeout=most_s)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        pytest.fail(f"not over after {most_s} s: {process.args}\n{err}")
    assert process.returncode == 0, f"{process.args}\n{err}"
    return json.loads(out)


# From "nothing fits" to "all but the last entry fits": 4 chunks, a list, a manifest, its list entry, folders.
@pytest.mark.usefixtures("own_mounts")
@pytest.mark.parametrize(
    ("free_bytes", "free_inodes"), [(0, 500), (100_000, 500), (2 * MIB, 500), (64 * MIB, 0)]
)
def test_a_full_disk_loses_nothing(tmp_path, free_bytes, free_inodes):
    result = result_of(program("full_disk.py", tmp_path, free_bytes, free_inodes))
    assert result["error"].startswith("StoreError: the store /")
    assert "No space left on device" in result["error"]
    assert "free space" in result["hint"]
    assert (result["faults"], result["listed"], result["staged"]) == ([], 1, 0)
    assert result["kept"]
    assert result["again"]


@pytest.mark.usefixtures("own_mounts")
def test_a_disk_that_fills_up_at_any_file_loses_nothing(tmp_path):
    """Each number of free inodes stops the put at another file or folder."""
    outcomes = set()
    for free_inodes in range(1, 21):
        result = result_of(program("full_disk.py", tmp_path, 64 * MIB, free_inodes))
        assert (result["faults"], result["staged"], result["kept"], result["again"]) == ([], 0, True, True)
        assert result["listed"] == (2 if result["error"] is None else 1)
        outcomes.add(result["error"] is None)
    assert outcomes == {True, False}


@pytest.mark.usefixtures("own_mounts")
@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (
            "kc-store get @ {disk}/copy",
            6,
            "1,003,520 bytes free, but 6,000,000 bytes are needed up to and including large",
        ),
        ("kc-store cat @ large > {disk}/copy", 6, "standard output has 1,003,520 bytes free"),
        ("kc-store export @ -o {disk}/copy", 3, "cannot write {disk}/copy: No space left on device"),
    ],
)
def test_what_a_full_disk_cannot_take_is_named_with_the_next_step(tmp_path, command, code, message):
    store = Store.open(tmp_path / "store")
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "large").write_bytes(random_bytes(6_000_000).tobytes())
    put_path(store, tmp_path / "large")
    shell = command.format(disk=disk) + f"; code=$?; find {disk} -type f -size +0; exit $code"
    words = [sys.executable, SMALL_DISK, disk, "1000000", "bash", "-c", shell]
    environment = os.environ | {"KERNCAP_STORE": str(store.root)}
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert message.format(disk=disk) in done.stderr
    assert "\n  next: " in done.stderr


@pytest.mark.usefixtures("own_mounts")
def test_a_read_only_store_is_read_and_refuses_writing(store):
    publish_memory(store, random_bytes(MIB))
    result = result_of(program("read_only.py", store.root))
    assert result.pop("read") is True
    assert result.pop("dry run") == 0
    for text in result.values():
        assert text.startswith("StoreError")
        assert "Read-only file system" in text
        assert str(store.root) in text
        assert "--store DIR" in text


def test_a_store_of_another_user_is_read_and_refuses_writing(store):
    artifact, memory = publish_memory(store, random_bytes(100))
    try:
        os.chown(store.root, 12345, -1)
    except OSError as error:
        pytest.skip(f"only root can give a folder away: {error}")
    other = Store.open(store.root)
    assert other.read_memory(memory).size == 100
    for write in (other.begin_transaction, lambda: other.name("x", artifact), lambda: collect_garbage(other)):
        with pytest.raises(StoreError, match=f"{store.root} belongs to user 12345") as raised:
            write()
        assert "--store DIR" in raised.value.hint


def killed(store, times, seed, most_s=300):
    result = result_of(program("killed.py", store.root, times, seed), most_s)
    assert result["faults"] == []
    assert result["ok"]
    assert result["left"] == 0
    assert result["listed"] == 1
    assert result["unfinished"] > 0  # some were killed on their way
    return result


def test_a_killed_put_leaves_nothing_wrong_and_a_second_one_completes(store):
    killed(store, 25, seed=1)


@pytest.mark.slow
def test_a_put_killed_very_often_leaves_nothing_wrong(store):
    killed(store, 1000, seed=2, most_s=3600)  # more than five minutes on a busy machine


def busy(store, seconds):
    roles = ["writer", "writer", "collector", "reader"]
    processes = [program("busy.py", store.root, role, seconds, number) for number, role in enumerate(roles)]
    first, second, collector, reader = map(result_of, processes)
    assert (first["wrong"], second["wrong"], reader["faults"]) == (0, 0, [])
    assert min(first["made"], second["made"], collector["runs"], reader["checks"]) > 3
    assert collector["removed"] > 0
    assert {entry.digest for entry in store.list_artifacts()} == {*first["mine"], *second["mine"]}
    assert check_store(store).ok


def test_two_writers_a_collector_and_a_reader_at_once(store):
    busy(store, 8)


@pytest.mark.slow
def test_two_writers_a_collector_and_a_reader_for_minutes(store):
    busy(store, 120)


def test_two_processes_put_the_same_memory_at_once(store, tmp_path):
    memory = random_bytes(48 * MIB)
    np.save(tmp_path / "memory.npy", memory)
    code = """
import sys
from pathlib import Path
import numpy as np
from kerncap_stages.store import Store
memory = np.load(sys.argv[2])
store = Store.open(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with store.begin_transaction() as transaction:
    digest = transaction.put_memory(memory)
    text = f'{{"kind":"capture","memory":"memory:{digest}"}}\\n'
    print(transaction.publish(text.encode(), "capture"))
"""
    command = [sys.executable, "-P", "-c", code, store.root, tmp_path / "memory.npy"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    made = {process.communicate(timeout=300)[0].strip() for process in both}
    assert [entry.digest for entry in store.list_artifacts()] == list(made)
    assert check_store(store).ok
    assert len(list((store.root / "objects").glob("*/*"))) == 48 + 2
    assert collect_garbage(store).removed_objects == 0


def test_many_processes_open_a_fresh_store_at_once(tmp_path):
    """Each makes what is not there; none takes another's half-made folder for something else."""
    command = [sys.executable, "-P", PROGRAMS / "open_at_once.py"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen([*command, str(number)], **pipes) for number in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for number in range(40):
        root = tmp_path / f"deep-{number}" / "store"
        for process in processes:
            process.stdin.write(f"{root}\n")
            process.stdin.flush()
        made = {process.stdout.readline().strip() for process in processes}
        assert made == {entry.digest for entry in Store.open(root).list_artifacts()}
        assert len(made) == 4
        assert root.stat().st_mode & 0o777 == 0o700
    for process in processes:
        assert process.communicate(timeout=60)[0] == ""
        assert process.returncode == 0


def test_an_ended_transaction_refuses(store):
    with store.begin_transaction() as transaction:
        pass
    with pytest.raises(StoreError, match="has ended"):
        transaction.put_bytes(b"x")


@pytest.mark.usefixtures("own_mounts")
def test_a_failed_transaction_publishes_nothing_more(tmp_path):
    """After a failed write, objects that others of the same transaction rely on may be absent."""
    code = """
import os, sys
from pathlib import Path
from kerncap_stages.errors import StoreError
from kerncap_stages.rocm_root.namespaces import enter_private_mounts, mount
from kerncap_stages.store import Store
enter_private_mounts()
mount("tmpfs", Path(sys.argv[1]), "tmpfs", 0, "size=2m")
store = Store.open(Path(sys.argv[1]) / "store")
with store.begin_transaction() as transaction:
    for payload in (os.urandom(8 << 20), b"small"):
        try:
            transaction.put_bytes(payload)
        except StoreError as error:
            print(error)
    try:
        transaction.publish(b'{"kind":"capture"}\\n', "capture")
    except StoreError as error:
        print(error)
print(len(store.list_artifacts()))
"""
    command = [sys.executable, "-P", "-c", code, tmp_path]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(out) == 4
    assert all("No space left on device" in line for line in out[:3])
    assert out[3] == "0"


def test_a_write_that_a_limit_on_the_size_of_files_stops_names_the_limit(tmp_path):
    """Not a full disk: what must be raised is the limit of the shell."""
    code = """
import os, resource, sys
from pathlib import Path
from kerncap_stages.errors import StoreError
from kerncap_stages.store import Store
store = Store.open(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1024, resource.RLIM_INFINITY))
with store.begin_transaction() as transaction:
    try:
        transaction.put_bytes(os.urandom(1 << 20))
    except StoreError as error:
        print(error, error.hint, sep="\\n")
"""
    command = [sys.executable, "-P", "-c", code, tmp_path / "store"]
    said, hint = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert said.endswith("File too large")
    assert "`ulimit -f unlimited`" in hint
    assert "space" not in hint


def test_an_export_that_a_limit_on_the_size_of_files_stops_names_the_limit(tmp_path):
    store = Store.open(tmp_path / "store")
    (tmp_path / "large").write_bytes(random_bytes(6_000_000).tobytes())
    put_path(store, tmp_path / "large")
    done = subprocess.run(
        ["bash", "-c", f"ulimit -S -f 1000; kc-store export @ -o {tmp_path}/copy"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"KERNCAP_STORE": str(store.root)},
    )
    assert (done.returncode, done.stdout) == (3, ""), done.stderr
    assert f"cannot write {tmp_path}/copy: File too large\n" in done.stderr
    assert "next: raise the limit on the size of files (`ulimit -f unlimited`)" in done.stderr
