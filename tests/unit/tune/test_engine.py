"""What names a study, and where its files may be."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.session import EvaluateSettings
from kerncap_stages.tune.engine import _lock, _name_study
from kerncap_stages.tune.space import make_space


def test_what_runs_elsewhere_is_another_study():
    opened = SimpleNamespace(subject=SimpleNamespace(captures=("a",)), machine="m")
    space = make_space({"A": [1, 2]})

    def name(on):
        return _name_study(opened, space, "identity", EvaluateSettings(on=on))

    places = (None, "ray", "slurm --partition=mi250", "slurm --partition=mi300")
    assert len({name(each) for each in places}) == 4
    assert name("ray") == name("ray")


@pytest.mark.parametrize("name", ["tune", "tune/journal.log", "tune/lock"])
def test_nothing_is_written_through_a_link(tmp_path, name):
    (tmp_path / "project/tune").mkdir(parents=True)
    if name == "tune":
        (tmp_path / "project/tune").rmdir()
        (tmp_path / "other").mkdir()
    (tmp_path / "project" / name).symlink_to(tmp_path / "other")
    with pytest.raises(UsageError, match="symbolic link"), _lock(tmp_path / "project"):
        pass
    assert not (tmp_path / "other").is_file()


def test_one_process_tunes_a_project(tmp_path):
    with _lock(tmp_path) as folder:
        (folder / "journal.log").touch()
        with pytest.raises(UsageError, match="another process"), _lock(tmp_path):
            pass
