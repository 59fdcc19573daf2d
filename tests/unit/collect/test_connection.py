"""What the collector makes of the end of a conversation."""

from __future__ import annotations

import errno
import itertools
import os
import resource
import socket
import subprocess
import sys

import pytest

from kerncap_stages.collect.connection import Connection, LibrarySettings, has_memory
from kerncap_stages.collect.protocol import MAGIC, VERSION, Hello, Mode, Up, encode
from kerncap_stages.collect.shared_memory import SharedMemory
from kerncap_stages.machine.native_paths import LIBRARY_FOLDER


def test_a_process_that_has_ended_has_no_memory_though_it_is_still_listed():
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    assert not has_memory(ended.pid)
    ended.wait()
    assert has_memory(os.getpid())


def test_a_collector_that_hears_nothing_is_given_up_and_finds_what_was_said(tmp_path):
    """As one that was stopped: the program goes on, and the collector hears of that once it goes on, too."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        client = subprocess.Popen(
            [LIBRARY_FOLDER / "capture_client", "notes"], env={**os.environ, "KERNCAP_SOCKET": path}
        )
        connection = Connection(server.accept()[0], lambda _: None)
        connection.shake_hands(LibrarySettings(Mode.CAPTURE, wait_ms=500))
        assert client.wait(60) == 0
        said = [
            Up(int.from_bytes(message[:4], "little")) for message in connection.read_messages() if message
        ]
        assert len(said) > 10
        assert set(said) == {Up.NOTE}
        assert connection.is_lost()
        connection.close()


@pytest.mark.slow  # 20 s
def test_a_collector_that_answers_nothing_is_given_up_though_signals_come_meanwhile(tmp_path):
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        words = [LIBRARY_FOLDER / "capture_client", "tick"]
        client = subprocess.Popen(
            words, env={**os.environ, "KERNCAP_SOCKET": path}, stdout=subprocess.PIPE, text=True
        )
        said, _ = client.communicate(timeout=60)
        assert (client.returncode, said) == (3, "error no answer from the collector\n")


@pytest.mark.parametrize("says_hello", [False, True])
def test_a_process_that_goes_before_it_is_answered_is_no_error(says_hello):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection = Connection(ours, lambda _: None)
    if says_hello:
        theirs.send(encode(Hello(magic=MAGIC, version=VERSION, backend="hsa")))
    theirs.close()
    assert not connection.shake_hands(LibrarySettings(Mode.CAPTURE))
    connection.close()


def test_a_process_that_closes_its_files_and_goes_on_is_heard_no_more(tmp_path):
    """Its listening thread keeps the socket open."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(path)
        server.listen()
        words = [LIBRARY_FOLDER / "capture_client", "fact", "key", "value", "lose", "sleep"]
        client = subprocess.Popen(words, env={**os.environ, "KERNCAP_SOCKET": path})
        connection = Connection(server.accept()[0], lambda _: None)
        connection.shake_hands(LibrarySettings(Mode.CAPTURE))
        # None for each time of TICK_S in which nothing comes: a minute, if it does not end.
        messages = list(itertools.islice(connection.read_messages(), 1200))
        assert len(messages) < 1200
        heard = [Up(int.from_bytes(message[:4], "little")) for message in messages if message is not None]
        assert heard == [Up.FACTS]
        assert client.poll() is None
        assert connection.is_lost()
        connection.close()
        client.kill()
        client.wait()


def test_memory_that_a_limit_on_the_size_of_files_refuses_is_named():
    """Linux counts it as a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
    try:
        with pytest.raises(OSError, match="bytes of memory shared with the program") as raised:
            SharedMemory(4, 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert raised.value.errno == errno.EFBIG
