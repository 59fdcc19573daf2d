"""Reading tune.toml."""

from __future__ import annotations

import pytest

from kerncap_stages.errors import UsageError
from kerncap_stages.tune.space import CAPTURED, read_space

LAUNCHED = dict(zip(CAPTURED, (10, 2, 1, 64, 1, 1, 16), strict=True))


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / "tune.toml").write_text(text)
        return read_space(tmp_path / "tune.toml")

    return read


def test_a_whole_file(read):
    space = read(
        """
constraints = ["TILE * UNROLL <= 64", "level != '-O2' or TILE == 8"]
[define]
TILE = [16, 8]
UNROLL = { min = 1, max = 8, factor = 2 }
FAST = [true, false]
[flags]
level = ["-O3 -g0", "-O2", ""]
[values]
rows = { min = 1, max = 5, step = 2 }
[launch]
block = ["TILE", "rows"]
grid = ["ceil_div(grid_x * block_x, TILE)", "grid_y"]
lds = "lds + TILE * 4"
"""
    )
    assert [each.values for each in space.parameters] == [
        (16, 8), (1, 2, 4, 8), (True, False), ("-O3 -g0", "-O2", ""), (1, 3, 5)
    ]  # fmt: skip
    assert space.size == 2 * 4 * 2 * 3 * 3
    configuration = space.make((16, 2, True, "-O3 -g0", 3))
    assert configuration.name == "TILE=16 UNROLL=2 FAST=True level='-O3 -g0' rows=3"
    assert space.choose_flags(configuration) == ("-DTILE=16", "-DUNROLL=2", "-DFAST=1", "-O3", "-g0")
    assert space.choose_launch(configuration, LAUNCHED) == {
        "block": [16, 3, 1], "grid": [40, 2, 1], "lds": 80
    }  # fmt: skip
    assert space.is_allowed(configuration)
    assert not space.is_allowed(space.make((16, 8, True, "-O3 -g0", 3)))
    assert not space.is_allowed(space.make((16, 1, True, "-O2", 3)))
    allowed = list(space.list_allowed())
    assert len(allowed) == len(set(allowed)) == sum(
        unroll * tile // 8 <= 8 and (level != "-O2" or tile == 8)
        for tile in (16, 8) for unroll in (1, 2, 4, 8) for _ in range(2) for level in ("", "-O2", "-O3")
        for _ in range(3)
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "0 parameters"),
        ("[define\n", "tune.toml: "),
        ("[defines]\nA = [1]\n", "key 'defines'"),
        ("define = 3\n", "define must be a table"),
        ("[define]\nA = 3\n", "from 1 to"),
        ("[define]\nA = []\n", "from 1 to"),
        ("[define]\nA = [[1]]\n", "a value is a number"),
        ("[define]\nA = [1, 1.0]\n", "given twice"),
        ("[define]\nA = [1, true]\n", "given twice"),
        ("[define]\nA = [inf]\n", "finite"),
        ("[define]\n'A-B' = [1]\n", "letters, digits and _ only"),
        ("[define]\nA = [1]\n[values]\nA = [2]\n", "names two things"),
        ("[define]\nblock_x = [1]\n", "names two things"),
        ("[define]\nA = { min = 2, max = 1 }\n", "goes up"),
        ("[define]\nA = { min = 0, max = 8, factor = 2 }\n", "goes up"),
        ("[define]\nA = { min = 1, max = 8, factor = 1 }\n", "goes up"),
        ("[define]\nA = { min = 1, max = 8, step = 2, factor = 2 }\n", "a range is"),
        ("[define]\nA = { min = 1, max = 99999999 }\n", "from 1 to"),
        ('[flags]\nA = ["\'"]\n', "quotation"),
        ("constraints = 'A'\n[define]\nA = [1]\n", "must be a list of texts"),
        ("constraints = ['B']\n[define]\nA = [1]\n", "which is not a parameter"),
        ("constraints = ['grid_x > 1']\n[define]\nA = [1]\n", "which is not a parameter"),
        ("constraints = ['A > 2, A < 9']\n[define]\nA = [1]\n", "always holds"),
        ("constraints = ['\"A\"']\n[define]\nA = [1]\n", "always holds"),
        ("[define]\nA = [1]\n[launch]\nblocks = 'A'\n", "a launch has"),
        ("[define]\nA = [1]\n[launch]\nblock = ['A', 1, 1, 1]\n", "up to three"),
        ("[define]\nA = [1]\n[launch]\nlds = ['A']\n", "one for lds"),
        ("[define]\nA = [1]\n[launch]\nblock = 'A, A'\n", "not one number"),
        ("[define]\nA = [1]\n[launch]\nlds = '1e400'\n", "too large"),
        ('[define]\nA = ["1", "a\\u0000b"]\n', "control character"),
        ('[flags]\nA = ["", "-DA=1\\n2"]\n', "control character"),
        ("constraints = ['max()']\n[define]\nA = [1]\n", "max takes 2 or more values, not 0"),
        ("constraints = ['abs(A, 1)']\n[define]\nA = [1]\n", "abs takes 1 values?, not 2"),
    ],
)
def test_what_is_wrong_is_told(read, text, said):
    with pytest.raises(UsageError, match=said):
        read(text)


@pytest.mark.parametrize("block", ["A * 2000", "A - 1", "A / 3", "A == 1", "1 << 33"])
def test_a_launch_that_no_gpu_takes_is_an_error(read, block):
    space = read(f"[values]\nA = [1]\n[launch]\nblock = '{block}'\n")
    with pytest.raises(UsageError):
        space.choose_launch(space.make((1,)), LAUNCHED)


def test_a_launch_that_no_value_cures_is_an_error_at_the_start(read):
    never = read("[values]\nA = [1, 2]\n[launch]\nblock = 'A * 2000'\n")
    with pytest.raises(UsageError, match="no configuration has a launch: a block of 2000x1x1 for A=1"):
        never.require_launch(LAUNCHED)
    read("[values]\nA = [2, 1]\n[launch]\nblock = 'A * 1000'\n").require_launch(LAUNCHED)
    large = ", ".join(map(str, range(1, 201)))
    read(f"[values]\nA = [{large}]\nB = [{large}]\n[launch]\nlds = '-A - B'\n").require_launch(LAUNCHED)


def test_what_is_no_file_is_told(tmp_path):
    with pytest.raises(UsageError, match="there is no"):
        read_space(tmp_path / "tune.toml")
    (tmp_path / "tune.toml").mkdir()
    with pytest.raises(UsageError):
        read_space(tmp_path / "tune.toml")
