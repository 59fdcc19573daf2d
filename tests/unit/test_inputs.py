"""Which artifacts a stage works on where no argument names one."""

import io
import os
import socket
from pathlib import Path

import pytest

from kerncap_stages.cli.inputs import read_artifact_texts
from kerncap_stages.errors import ArtifactNotFound, UsageError


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_latest_is_taken_and_said_where_a_stage_offers_it(capsys):
    assert list(read_artifact_texts(None, Terminal(), otherwise="@capture")) == ["@capture"]
    assert "using the latest capture (@capture)" in capsys.readouterr().err
    with pytest.raises(UsageError):
        list(read_artifact_texts(None, Terminal()))


@pytest.mark.parametrize("otherwise", ["@capture", None])
def test_dev_null_names_no_artifact_and_an_empty_pipe_is_a_failed_stage(capsys, otherwise):
    with Path(os.devnull).open() as nothing:
        if otherwise is None:
            with pytest.raises(UsageError, match="no artifact given"):
                list(read_artifact_texts(None, nothing))
        else:
            assert list(read_artifact_texts(None, nothing, otherwise=otherwise)) == [otherwise]
            assert f"using the latest capture ({otherwise})" in capsys.readouterr().err
    reader, writer = os.pipe()
    os.close(writer)
    with os.fdopen(reader) as empty, pytest.raises(ArtifactNotFound, match="the stage before"):
        list(read_artifact_texts(None, empty, otherwise=otherwise))
    ours, theirs = socket.socketpair()
    theirs.close()
    with os.fdopen(ours.detach()) as empty, pytest.raises(ArtifactNotFound, match="the stage before"):
        list(read_artifact_texts(None, empty, otherwise=otherwise))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_argument_is_a_failed_stage_and_not_the_latest(empty):
    found = read_artifact_texts(["x", empty], Terminal(), otherwise="@capture")
    assert next(found) == "x"
    with pytest.raises(ArtifactNotFound, match="an argument is empty"):
        next(found)


def test_a_pipe_and_arguments_go_before_the_latest(capsys):
    assert list(read_artifact_texts(None, io.StringIO("abc\n"), otherwise="@capture")) == ["abc"]
    assert list(read_artifact_texts(["x"], Terminal(), otherwise="@capture")) == ["x"]
    assert capsys.readouterr().err == ""
