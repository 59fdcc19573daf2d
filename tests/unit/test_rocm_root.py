"""Recipes and versions of a root, and what it takes over; making and entering one is `make test` itself."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

import kerncap_stages
from kerncap_stages.errors import DeviceError, ExitCode, Refused, UsageError
from kerncap_stages.rocm_root import bootstrap, cache, cli, enter, host, image, namespaces, versions
from kerncap_stages.rocm_root.build import install_script
from kerncap_stages.rocm_root.children import run_in_child
from kerncap_stages.rocm_root.recipes import RECIPES, find_recipe

SOURCES = Path(__file__).parents[2]


def test_tests_run_the_installed_package() -> None:
    assert not Path(kerncap_stages.__file__).is_relative_to(SOURCES / "kerncap_stages")


@pytest.mark.parametrize(
    ("version", "numbers"),
    [("1:21.1.8-13", (21, 1, 8)), ("6.4.3+dfsg-5", (6, 4, 3)), ("7.2.4-1~exp2", (7, 2, 4)), ("r5", ())],
)
def test_upstream_takes_the_numbers_before_the_debian_part(version: str, numbers: tuple[int, ...]) -> None:
    assert versions.parse_upstream(version) == numbers


def good_packages(rocm: str) -> dict[str, str]:
    return {name: f"{low}.1-1" for name, (low, _) in RECIPES[rocm].supported.items()}


@pytest.mark.parametrize("rocm", list(RECIPES))
def test_check_accepts_the_lowest_supported_versions(rocm: str) -> None:
    versions.check(RECIPES[rocm], (), good_packages(rocm))


def test_check_names_each_package_that_moved_and_the_snapshot_to_use() -> None:
    packages = good_packages("6.4") | {"libhsa-runtime64-1": "7.1.0-1"}
    del packages["hipcc"]
    with pytest.raises(DeviceError, match=r"libhsa-runtime64-1 is 7\.1\.0-1.*|hipcc is missing") as caught:
        versions.check(RECIPES["6.4"], (), packages)
    assert "hipcc is missing" in str(caught.value)
    assert caught.value.hint
    assert RECIPES["6.4"].snapshot in caught.value.hint


def test_installed_reads_only_installed_packages(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        "Package: a\nStatus: install ok installed\nVersion: 1.0-1\n\n"
        "Package: b\nStatus: deinstall ok config-files\nVersion: 2.0-1\n\n"
    )
    assert versions.read_installed(tmp_path) == {"a": "1.0-1"}


def test_a_perl_without_modules_is_refused_before_anything_is_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in images that hold perl-base alone: mmdebstrap would end with a line about @INC."""
    for name in ("apt-get", "dpkg-deb", "tar", "perl"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 2\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        (tmp_path / "log").open("w") as log,
        pytest.raises(Refused, match="perl with its own modules") as caught,
    ):
        bootstrap.make_command("forky", None, [], log)
    assert caught.value.hint == "as root: apt-get install perl"


def test_key_changes_with_layers_and_owner() -> None:
    recipe = find_recipe("6.4")
    keys = {
        recipe.make_key((), as_root=True),
        recipe.make_key((), as_root=False),
        recipe.make_key(("llama.cpp",), as_root=True),
    }
    assert len(keys) == 3


@pytest.mark.parametrize(("rocm", "layers"), [("5.7", ()), ("7.2", ("llama.cpp",)), ("6.4", ("pytorch",))])
def test_unknown_version_or_layer_is_a_usage_error(rocm: str, layers: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        find_recipe(rocm).make_key(layers, as_root=True)


def test_mirror_given_beats_variable_beats_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(host.MIRROR_VARIABLE, "http://b.example/debian/")
    assert host.find_archive_mirror("http://a.example/debian") == "http://a.example/debian"
    assert host.find_archive_mirror() == "http://b.example/debian"
    monkeypatch.delenv(host.MIRROR_VARIABLE)
    monkeypatch.setattr(
        host, "_read_output", lambda *_: "Debian Debian-Security http://s/\nDebian Debian http://m/debian/\n"
    )
    assert host.find_archive_mirror() == "http://m/debian"
    monkeypatch.setattr(host, "_read_output", lambda *_: "Ubuntu Ubuntu http://u/ubuntu/\n")
    assert host.find_archive_mirror() is None  # mmdebstrap's own


def test_mirror_of_a_new_root_is_what_its_apt_was_given(tmp_path: Path) -> None:
    (tmp_path / "etc/apt").mkdir(parents=True)
    sources = tmp_path / "etc/apt/sources.list"
    sources.write_text(
        "deb [signed-by=/k.gpg] http://m/debian/ forky main\ndeb http://s/sec forky-security main\n"
    )
    assert bootstrap.find_mirror(tmp_path, "forky") == "http://m/debian"
    with pytest.raises(DeviceError, match="sid") as caught:
        bootstrap.find_mirror(tmp_path, "sid")
    assert "--mirror" in (caught.value.hint or "")


def test_only_network_options_of_apt_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = (
        'Acquire::http "";\nAcquire::http::Proxy "http://p:3128";\n'
        'Acquire::http::Proxy-Auto-Detect "/usr/bin/x";\n'
        'Acquire::Check-Valid-Until "false";\nAcquire::https::CAInfo "/x.pem";\nDPkg::Post-Invoke "x";\n'
    )
    monkeypatch.setattr(host, "_read_output", lambda *_: dump)
    assert host.list_apt_network_options() == [
        'Acquire::http::Proxy "http://p:3128";',
        'Acquire::Check-Valid-Until "false";',
    ]


def test_pip_settings_of_a_user_are_merged_and_their_folders_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "index/simple").mkdir(parents=True)
    config = tmp_path / "config/pip/pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(
        f"[global]\nextra-index-url = file://{tmp_path}/index/simple\n    https://b.example/simple\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    settings = host.read_pip_settings()
    assert tmp_path / "index" in host.list_local_paths(settings)
    assert "https://b.example/simple" in host.format_pip_configuration(settings)


def test_environment_drops_what_belongs_to_the_machines_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/lib")
    monkeypatch.setenv("PATH", "/opt/bin")
    monkeypatch.setenv("KERNCAP_STORE", "/data")
    kept = enter.make_environment({"EXTRA": "1"})
    assert "LD_LIBRARY_PATH" not in kept
    assert kept["PATH"] == enter.ROOT_PATH
    assert (kept["KERNCAP_STORE"], kept["EXTRA"]) == ("/data", "1")


def test_a_folder_with_files_of_the_roots_own_is_never_hidden(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    (tmp_path / "usr/lib/libc.so").write_text("x")
    (tmp_path / "home/user/project").mkdir(parents=True)
    assert enter.hides(Path("/usr"), tmp_path)
    assert not enter.hides(Path("/home/user"), tmp_path)
    assert not enter.hides(Path("/data"), tmp_path)


def test_subordinate_ids_missing_is_a_refusal_that_names_the_command(tmp_path: Path) -> None:
    table = tmp_path / "subuid"
    table.write_text("somebody:100000:65536\n")
    with pytest.raises(Refused) as caught:
        namespaces.find_subordinate_range(table)
    assert caught.value.hint
    assert "usermod" in caught.value.hint


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("kernel.apparmor_restrict_unprivileged_userns", "1"),
        ("kernel.unprivileged_userns_clone", "0"),
        ("user.max_user_namespaces", "0"),
    ],
)
def test_refusal_names_the_setting_that_forbids_namespaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    file = tmp_path / setting.replace(".", "/")
    file.parent.mkdir()
    file.write_text(value + "\n")
    monkeypatch.setattr(namespaces, "SYSCTL", tmp_path)
    refusal = namespaces.explain_refused_user(OSError(1, "Operation not permitted"))
    assert f"{setting} = {value}" in str(refusal)
    assert refusal.hint
    assert f"sysctl -w {setting}=" in refusal.hint


def test_an_error_of_a_child_process_is_raised_in_its_parent() -> None:
    def fail() -> None:
        raise Refused("no", hint="do this")

    with pytest.raises(Refused, match="no") as caught:
        run_in_child(fail, private=False)
    assert caught.value.hint == "do this"


@pytest.mark.parametrize(
    ("words", "left"),
    [
        (["6"], {"6.4-aa", "6.4-bb", "7.2-cc"}),
        ([""], {"6.4-aa", "6.4-bb", "7.2-cc"}),
        (["nosuch"], {"6.4-aa", "6.4-bb", "7.2-cc"}),
        ([], {"6.4-aa", "6.4-bb", "7.2-cc"}),
        (["7", "nosuch"], {"6.4-aa", "6.4-bb", "7.2-cc"}),
        (["7", "6.4-a"], {"6.4-bb"}),
    ],
)
def test_only_roots_that_are_named_without_doubt_are_removed(
    words: list[str], left: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNCAP_ROOT_CACHE", str(tmp_path))
    for key in ("6.4-aa", "6.4-bb", "7.2-cc"):
        root = cache.Root(key)
        root.files.mkdir(parents=True)
        (root.folder / "versions.json").write_text("{}")
    before = {root.key for root in cache.list_roots()}
    assert before == {"6.4-aa", "6.4-bb", "7.2-cc"}
    with pytest.raises(SystemExit) as ended:
        cli.main(["rm", *words])
    assert ended.value.code == (2 if left == before else 0)
    assert {root.key for root in cache.list_roots()} == left


def test_a_root_in_use_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path))
    root = cache.Root("6.4-0123456789ab")
    root.files.mkdir(parents=True)
    using = cache.hold(root, exclusive=False)
    with pytest.raises(Refused, match="in use"):
        cache.remove(root)
    os.close(using)
    cache.remove(root)
    assert not any((tmp_path / "roots").iterdir())


def test_sweep_deletes_what_killed_runs_left_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path))
    for name in (".making-6.4-a", ".making-6.4-b", ".dying-6.4-c-1", "6.4-d"):
        (tmp_path / "roots" / name / "fs").mkdir(parents=True)
    for key in ("6.4-a", "6.4-b"):
        cache.Root(key).downloads.mkdir(parents=True)
    making = cache.hold(cache.Root("6.4-b"), exclusive=True)
    cache.sweep(cache.Root("6.4-a"))
    os.close(making)
    assert {path.name for path in (tmp_path / "roots").iterdir()} == {".making-6.4-b", "6.4-d"}
    assert [path.name for path in (tmp_path / "downloads").iterdir()] == ["6.4-a"]


def test_containerfile_installs_what_the_recipe_says(golden) -> None:
    golden(SOURCES / "Containerfile", image.make_containerfile("6.4", ()).encode())


def test_containerfile_with_layers_installs_them_after_the_recipe() -> None:
    text = image.make_containerfile("6.4", ("llama.cpp",))
    assert text.index("hipcc") < text.index("libggml0-backend-hip")
    assert '"layers": ["llama.cpp"]' in text


def test_containerfile_of_an_overlay_takes_the_archive_of_its_base_image() -> None:
    text = image.make_containerfile("7.2", ())
    assert "ARG BASE=debian:sid-slim\nFROM ${BASE}\n" in text
    assert "debian.sources" in text
    assert "experimental main" in text


def test_no_file_names_a_registry_or_an_archive() -> None:
    """Where packages and images come from is the machine's own setting."""
    hosts = re.compile(rb"\b((docker|quay|ghcr)\.io|(debian|pypi|pythonhosted|npmjs)\.org|ubuntu\.com)\b")
    folders = [
        SOURCES / name for name in (".ci", "benchmarks", "docs", "kerncap_stages", "native", "schemas")
    ]
    folders += [SOURCES / name for name in ("templates", "tests", "tools")]
    files = [path for path in SOURCES.iterdir() if path.is_file()]
    files += [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 300
    assert [path for path in files if path.suffix != ".pyc" and hosts.search(path.read_bytes())] == []


def test_list_leaves_out_what_is_mounted_in_a_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Seen from inside a root, the machine's folders lie in the root's own files."""
    monkeypatch.setenv(cache.CACHE_VARIABLE, str(tmp_path))
    root = cache.Root("6.4-a")
    mounted, elsewhere = root.files / "a place", tmp_path / "elsewhere"
    mounted.mkdir(parents=True)
    elsewhere.mkdir()
    (elsewhere / "large").write_bytes(b"x" * (8 << 20))
    (root.folder / "versions.json").write_text('{"made_at": "today"}')

    def list_with_a_mount() -> None:
        namespaces.bind(elsewhere, mounted)
        assert namespaces.list_mounts_below(root.files) == [mounted]
        with pytest.raises(SystemExit):
            cli.main(["list"])
        sys.stdout.flush()

    assert run_in_child(list_with_a_mount, private=True) == 0
    size = capfd.readouterr().out.split()[1]
    assert size.endswith("K"), size


@pytest.mark.parametrize("verb", [["make"], ["run", "--", "true"]])
def test_cache_that_is_no_folder_is_refused(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(cache.CACHE_VARIABLE, "/dev/null")
    monkeypatch.setattr(image, "is_inside", lambda *_: False)
    with pytest.raises(SystemExit) as ended:
        cli.main(verb)
    assert ended.value.code == ExitCode.REFUSED
    assert "/dev/null: Not a directory" in capsys.readouterr().err


def test_packages_of_a_layer_come_from_where_the_roots_own_do() -> None:
    """Else a layer of ROCm 7.2 would take its libraries from sid, which has another ROCm."""
    newer = install_script(find_recipe("7.2"), ("frameworks",)).splitlines()
    assert [line for line in newer if "librocblas5" in line and " -t experimental " in line]
    older = install_script(find_recipe("6.4"), ("blas",))
    assert "librocblas-dev" in older
    assert " -t " not in older


def test_a_package_that_the_suite_lacks_comes_from_another_suite_that_apt_prefers_less() -> None:
    """Debian's testing has no hipSPARSE; a layer without such packages has no other suite."""
    script = install_script(find_recipe("6.4"), ("library-tests",))
    assert " sid main" in script
    assert "Pin: release n=sid\\nPin-Priority: 50" in script
    assert script.index("Pin-Priority") < script.index("apt-get update") < script.index("libhipsparse1-tests")
    assert "sid" not in install_script(find_recipe("6.4"), ("blas",))
    assert "sid" not in install_script(find_recipe("6.4"), None)
