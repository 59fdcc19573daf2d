"""Proposals, and what is kept of them. The metric is made up."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.manifests.evaluation import CaseResult, EvaluatedVariant, MeasuredTime, Outcome
from kerncap_stages.tune.search import Sampler, Search
from kerncap_stages.tune.space import read_space

SPACE = """
constraints = ["A * B <= 40"]
[define]
A = { min = 1, max = 16 }
B = [1, 2, 4, 8]
KIND = ["x", "y", "z"]
"""


@pytest.fixture
def make(tmp_path):
    (tmp_path / "tune.toml").write_text(SPACE)
    space = read_space(tmp_path / "tune.toml")

    def make(sampler=Sampler.TPE, seed=1, name="study"):
        return space, Search(space, tmp_path / "journal.log", name, sampler, seed)

    return make


def judge(configuration, outcome=Outcome.RIGHT):
    values = configuration.as_dict()
    ratio = 1 + (values["A"] - 11) ** 2 + (values["B"] - 2) ** 2 + 10 * (values["KIND"] != "y")
    if values["KIND"] == "z" and outcome is Outcome.RIGHT:
        outcome = Outcome.WRONG
    return EvaluatedVariant(
        name=configuration.name, outcome=outcome, code=None, code_digest=None, cases=(),
        ratio=ratio if outcome is Outcome.RIGHT else None,
    )  # fmt: skip


def drain(search, most=10_000, outcome=Outcome.RIGHT):
    proposed = []
    while len(proposed) < most and (proposal := search.propose()) is not None:
        search.tell(proposal, judge(proposal.configuration, outcome))
        proposed.append(proposal.configuration)
    return proposed


@pytest.mark.parametrize("sampler", [Sampler.RANDOM, Sampler.GRID])
def test_a_space_is_tried_to_its_end_and_nothing_twice(make, sampler):
    space, search = make(sampler)
    proposed = drain(search)
    allowed = list(space.list_allowed())
    assert len(proposed) == len(allowed)
    assert set(proposed) == set(allowed)
    if sampler is Sampler.GRID:
        assert proposed == allowed
    assert search.best.configuration.as_dict() == {"A": 11, "B": 2, "KIND": "y"}
    assert search.best.ratio == 1


def test_tpe_finds_the_best_in_a_part_of_the_space(make):
    space, search = make()
    proposed = drain(search, 60)
    assert len(set(proposed)) == 60 < len(list(space.list_allowed()))
    assert proposed[0].as_dict() == {"A": 1, "B": 1, "KIND": "x"}
    assert all(map(space.is_allowed, proposed))
    assert search.best.ratio <= 3


def test_wrong_ones_are_never_the_best(make):
    _, search = make()
    drain(search, 20, Outcome.WRONG)
    assert search.best is None
    assert {each.outcome for each in search.found} == {Outcome.WRONG}


def test_another_run_knows_what_was_found_and_proposes_the_rest(make):
    space, search = make()
    first = drain(search, 30)
    search.propose()  # a run that was killed
    search.evaluation = "0" * 64
    _, again = make(seed=1)
    assert [each.configuration for each in again.found] == first
    assert again.best == search.best
    assert again.evaluation == "0" * 64
    rest = drain(again)
    assert set(first) | set(rest) == set(space.list_allowed())
    assert not set(first) & set(rest)
    _, other = make(name="another source")
    assert other.found == []


def test_what_was_not_judged_is_proposed_in_another_run_only(make):
    _, search = make(Sampler.GRID)
    proposal = search.propose()
    search.tell(proposal, judge(proposal.configuration, Outcome.UNJUDGED))
    assert proposal.configuration not in drain(search) or search.found
    _, again = make(Sampler.GRID)
    assert proposal.configuration in [each.configuration for each in search.found] + drain(again)


def test_several_at_once_differ(make):
    _, search = make()
    proposals = [search.propose() for _ in range(40)]
    assert len({each.configuration for each in proposals}) == 40
    for each in proposals:
        search.tell(each, judge(each.configuration))
    assert len(search.found) == 40


def test_a_large_space_is_not_listed(tmp_path):
    names = "".join(f"P{number} = {{ min = 0, max = 1000 }}\n" for number in range(20))
    (tmp_path / "tune.toml").write_text(f"constraints = ['P0 + P1 > 500']\n[define]\n{names}")
    space = read_space(tmp_path / "tune.toml")
    with pytest.raises(UsageError, match="a grid of"):
        Search(space, tmp_path / "journal.log", "grid", Sampler.GRID, 1)
    for sampler in (Sampler.TPE, Sampler.RANDOM):
        search = Search(space, tmp_path / "journal.log", sampler, sampler, 1)
        proposals = [search.propose() for _ in range(5)]
        assert len({each.configuration for each in proposals}) == 5
        assert all(space.is_allowed(each.configuration) for each in proposals)


def test_a_torn_line_at_the_end_is_left_out(make, tmp_path):
    _, search = make()
    drain(search, 5)
    journal = tmp_path / "journal.log"
    journal.write_bytes(journal.read_bytes()[:-20])
    _, again = make()
    assert len(again.found) in (4, 5)
    drain(again, 3)
    _, last = make()
    assert len(last.found) == len(again.found)


def test_a_large_space_of_which_nothing_is_allowed_ends(tmp_path):
    (tmp_path / "tune.toml").write_text(
        "constraints = ['A > 5000']\n[define]\nA = { min = 1, max = 4096 }\nB = { min = 1, max = 4096 }\n"
    )
    search = Search(read_space(tmp_path / "tune.toml"), tmp_path / "journal.log", "s", Sampler.TPE, 1)
    assert search.propose() is None
    assert len((tmp_path / "journal.log").read_text().splitlines()) < 500


def test_a_rare_configuration_of_a_large_space_is_found(tmp_path):
    (tmp_path / "tune.toml").write_text(
        "constraints = ['A == 7']\n[define]\nA = { min = 1, max = 512 }\nB = { min = 1, max = 4096 }\n"
    )
    search = Search(read_space(tmp_path / "tune.toml"), tmp_path / "journal.log", "s", Sampler.TPE, 1)
    assert search.propose().configuration.as_dict()["A"] == 7


def timed(configuration, *devices):
    """A right variant with a time on each of these GPUs."""
    cases = tuple(
        CaseResult(verdict=None, passed=True, time=MeasuredTime(ratio=0.5, device=each)) for each in devices
    )
    return judge(configuration).model_copy(update={"outcome": Outcome.RIGHT, "ratio": 0.5, "cases": cases})


def test_times_of_different_gpus_are_not_compared(make):
    _, search = make()
    first, second, third = (search.propose() for _ in range(3))
    search.tell(first, timed(first.configuration, "H100 sm_90"))
    search.tell(second, judge(second.configuration, Outcome.WRONG))  # its verdict says nothing of a GPU
    with pytest.raises(UsageError, match="do not compare: H100 sm_90; H200 sm_90") as caught:
        search.tell(third, timed(third.configuration, "H200 sm_90"))
    assert "one kind of GPU" in caught.value.hint
    assert third.configuration not in {each.configuration for each in search.found}
    _, again = make()  # another run of the same search
    assert {each.device for each in again.found} == {"H100 sm_90"}
    fourth = again.propose()
    with pytest.raises(UsageError, match="do not compare"):
        again.tell(fourth, timed(fourth.configuration, "H100 sm_90", "H200 sm_90"))
    fifth = again.propose()
    again.tell(fifth, timed(fifth.configuration, "H100 sm_90"))
    assert again.found[-1].configuration == fifth.configuration
