"""Which artifacts a stage works on where no argument names one."""

import io

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.inputs import artifact_texts


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_the_latest_is_taken_and_said_where_a_stage_offers_it(capsys):
    assert list(artifact_texts(None, Terminal(), otherwise="@capture")) == ["@capture"]
    assert "@capture is taken" in capsys.readouterr().err
    with pytest.raises(UsageError):
        list(artifact_texts(None, Terminal()))


def test_a_pipe_and_arguments_go_before_the_latest(capsys):
    assert list(artifact_texts(None, io.StringIO("abc\n"), otherwise="@capture")) == ["abc"]
    assert list(artifact_texts(["x"], Terminal(), otherwise="@capture")) == ["x"]
    assert capsys.readouterr().err == ""
