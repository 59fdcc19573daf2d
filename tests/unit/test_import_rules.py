"""The rules of docs/architecture.md: imports and includes point one way."""

from __future__ import annotations

import ast
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2]
PACKAGE = SOURCES / "kerncap_stages"
NATIVE = SOURCES / "native"

# Folders of the package and modules at its top, lowest first: each imports only from levels below its own.
# docs/architecture.md shows the same.
LEVELS = (
    ("errors", "digest", "inside"),
    ("manifests",),
    ("text",),
    ("machine", "rocm_root"),
    ("code",),
    ("store",),
    ("project",),
    ("compilers",),
    ("collect",),
    ("locate", "replay"),
    ("generate",),
    ("validate",),
    ("evaluate",),
    ("serve", "tune"),
    ("pages",),
    ("cli",),
    ("cli.flows",),
    ("cli.commands",),
    ("compat",),
    ("completion",),
    ("launch",),
)
# The extension module, which is no folder of ours, and the package's own name.
KNOWN_TO_ALL = {"kerncap_stages", "kerncap_stages._native"}
# Starts every executable, so that it names them all.
ABOVE_ALL = "kerncap_stages.launch"
# The modules that do a stage's work. Only commands, their flows and compat call them.
ENGINES = {
    f"kerncap_stages.{name}"
    for name in (
        *("collect.profile", "collect.capture", "locate.locating"),
        *("generate.engine", "replay.engine", "validate.engine", "evaluate.engine", "tune.engine"),
    )
}
CALLS_ENGINES = {"cli.flows", "cli.commands", "compat"}

# folder of native/: the folders whose headers it may include
MAY_INCLUDE = {
    "core": {"core"},
    "softgpu": {"softgpu", "core"},
    "capture": {"capture", "core"},
    "replay": {"replay", "core"},
    "hsa": {"hsa", "capture", "replay", "core"},
    "cuda": {"cuda", "capture", "replay", "core"},
    "rtc": {"rtc", "core"},
    "bindings": {"bindings", "capture", "core"},
}
GPU_API = re.compile(r"^(hsa/|hip/|hsa|cuda|cupti|nv|drm|amdgpu|libdrm/|linux/kfd_ioctl|rocprofiler)")
KNOWS_NO_GPU_API = {"core", "capture", "replay", "bindings"}
MOST_LINES = 80  # of a function
MOST_LINES_OF_COMMANDS = 60  # below the docstring, and of each function that a command calls first
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


MODULES = modules()


def imports(name: str) -> set[str]:
    """Every module of this package that a module imports, at its top or in a function."""
    found = set()
    for node in ast.walk(MODULES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level == 1 and name.startswith("kerncap_stages.inside."):
                continue  # the user's program loads it under another name
            assert node.level == 0, f"{name}: a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= MODULES.keys() else names | {node.module or ""}
    return found & MODULES.keys()


def native_files() -> list[tuple[str, Path]]:
    return [
        (folder.name, path)
        for folder in sorted(NATIVE.iterdir())
        if folder.is_dir()
        for path in sorted(folder.rglob("*"))
        if path.suffix in {".cpp", ".hpp", ".c", ".h"}
    ]


def is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def test_there_is_something_to_check():
    assert len(MODULES) > 20
    assert {folder for folder, _ in native_files()} >= {"core", "bindings", "softgpu"}
    assert "kerncap_stages.manifests.base" in imports("kerncap_stages.manifests.capture")


def part_of(module: str) -> str:
    """The folder that a module is in, as LEVELS names it."""
    parts = module.split(".")[1:]
    return ".".join(parts[:2]) if parts[:2] in (["cli", "flows"], ["cli", "commands"]) else parts[0]


def level_of(module: str) -> int:
    found = [level for level, parts in enumerate(LEVELS) if part_of(module) in parts]
    assert found, f"{module}: LEVELS and docs/architecture.md need a place for it"
    return found[0]


@pytest.mark.parametrize("name", sorted(MODULES.keys() - KNOWN_TO_ALL))
def test_imports_point_down(name):
    wrong = {
        module
        for module in imports(name) - KNOWN_TO_ALL
        if part_of(module) != part_of(name) and level_of(module) >= level_of(name)
    }
    assert wrong == set()


def require_no_circle(graph: dict[str, set[str]]) -> None:
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from error


def test_no_file_imports_itself_through_others():
    """Also not for the names of types: such files are one thing in two pieces."""
    require_no_circle({name: imports(name) - {name, "kerncap_stages"} for name in MODULES})


def folder_of(module: str) -> str:
    is_folder = (SOURCES / module.replace(".", "/")).is_dir()
    return module if is_folder else module.rpartition(".")[0]


def test_no_folder_imports_itself_through_others():
    """At any depth. The package's own folder is none of these: its modules have levels of their own."""
    graph: dict[str, set[str]] = {}
    for name in MODULES:
        graph.setdefault(folder_of(name), set()).update(folder_of(module) for module in imports(name))
    graph.pop("kerncap_stages")
    require_no_circle({folder: found - {folder, "kerncap_stages"} for folder, found in graph.items()})


@pytest.mark.parametrize("name", sorted(MODULES))
def test_no_stage_calls_the_engine_of_another(name):
    called = {engine for engine in imports(name) & ENGINES if part_of(engine) != part_of(name)}
    assert MODULES.keys() >= ENGINES
    assert not called or part_of(name) in CALLS_ENGINES


def test_nothing_imports_what_starts_an_executable():
    """``launch`` changes what a signal does; ``completion`` runs before anything else is imported."""
    starts = {ABOVE_ALL, "kerncap_stages.completion"}
    users = {(name, module) for name in MODULES for module in imports(name) & starts}
    assert users == {(ABOVE_ALL, "kerncap_stages.completion")}


def test_rocm_root_stands_alone():
    """It runs from a checkout before anything is installed."""
    for name in MODULES:
        outside = not is_in(name, "kerncap_stages.rocm_root")
        found = imports(name) - KNOWN_TO_ALL
        if outside and name != ABOVE_ALL:
            assert not {module for module in found if is_in(module, "kerncap_stages.rocm_root")}
        elif not outside:
            assert {module for module in found if part_of(module) != "rocm_root"} <= {"kerncap_stages.errors"}


@pytest.mark.parametrize("name", [name for name in MODULES if is_in(name, "kerncap_stages.cli.commands")])
def test_stages_never_import_each_other(name):
    """A stage is a module, or a package whose modules are its parts."""
    stages = {
        module.split(".")[3] for module in imports(name) if module.startswith("kerncap_stages.cli.commands.")
    }
    assert stages - {*name.split(".")[3:4]} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if is_in(name, "kerncap_stages.manifests")])
def test_manifests_need_nothing_but_names_and_errors(name):
    allowed = ("kerncap_stages.manifests", "kerncap_stages.digest", "kerncap_stages.errors")
    others = {module for module in imports(name) if not any(is_in(module, package) for package in allowed)}
    assert others - {"kerncap_stages"} == set()


def test_there_is_one_door_to_manifests():
    """How they are read and written is said in one place; models are imported from their own modules."""
    inside = {"kerncap_stages.manifests.codec", "kerncap_stages.manifests.view"}
    users = {
        name for name in MODULES if not is_in(name, "kerncap_stages.manifests") and imports(name) & inside
    }
    assert users == set()


def test_the_architecture_page_shows_the_levels():
    page = (SOURCES / "docs/architecture.md").read_text(encoding="utf-8")
    shown = page.partition("## Imports point one way")[2].partition("```\n")[2].partition("```")[0]
    words = re.compile(r"\([^)]*\)|,").sub(" ", shown)
    assert [tuple(line.replace("/", ".").split()) for line in words.splitlines()] == list(LEVELS)


@pytest.mark.parametrize(("folder", "path"), native_files(), ids=lambda part: str(part)[-30:])
def test_native_includes_point_one_way(folder, path):
    assert folder in MAY_INCLUDE, f"native/{folder} has no rule: docs/architecture.md and this test need one"
    for bracket, header in INCLUDE.findall(path.read_text(encoding="utf-8")):
        top = header.partition("/")[0]
        if bracket == '"' and (NATIVE / top).is_dir():
            assert top in MAY_INCLUDE[folder], f"native/{folder} includes {header}"
        elif folder in KNOWS_NO_GPU_API:
            assert not GPU_API.match(header), f"native/{folder} includes {header}, of a GPU API"
        if header.startswith(("nanobind/", "Python.h", "pybind11/")):
            assert folder == "bindings", f"native/{folder} includes {header}"


def test_the_architecture_page_names_every_folder():
    """So that whoever looks for a part finds it there: of the tree, of the package, of the native code."""
    page = (SOURCES / "docs/architecture.md").read_text(encoding="utf-8")
    for top in (SOURCES, PACKAGE, NATIVE):
        for folder in sorted(path for path in top.iterdir() if path.is_dir()):
            name = folder.relative_to(SOURCES).as_posix()
            # What `make wheel` writes is no part of the tree.
            if name.startswith(".") or "__pycache__" in name or name == "dist":
                continue
            assert f"`{name}/" in page or f"`{name}`" in page, f"docs/architecture.md does not name {name}"


def functions(name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [
        node for node in ast.walk(MODULES[name]) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]


def imports_in_functions(name: str) -> set[int]:
    """The lines of a module where a function imports something."""
    inner = (node for function in functions(name) for node in ast.walk(function))
    return {node.lineno for node in inner if isinstance(node, (ast.Import, ast.ImportFrom))}


def test_few_functions_import():
    """A command imports what it does when it is called, so that ``--help`` is fast; others have a reason."""
    others = [name for name in MODULES if not is_command(name)]
    found = {name: lines for name in others if (lines := imports_in_functions(name))}
    assert sum(map(len, found.values())) <= 28, {name: len(lines) for name, lines in found.items()}


def is_command(name: str) -> bool:
    folders = ("kerncap_stages.cli.commands", "kerncap_stages.cli.flows")
    return any(is_in(name, folder) for folder in folders) or name.endswith("_cli")


@pytest.mark.parametrize("name", [name for name in MODULES if is_in(name, "kerncap_stages.cli.commands")])
def test_a_command_imports_one_thing_when_it_is_called(name):
    several = {
        each.name
        for each in functions(name)
        if sum(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.walk(each)) > 1
    }
    assert several == set()


@pytest.mark.parametrize("name", [name for name in MODULES if is_command(name)])
def test_bodies_of_commands_are_short(name):
    for each in functions(name):
        first, *rest = each.body
        begin = rest[0] if rest and ast.get_docstring(each) is not None else first
        assert each.body[-1].end_lineno - begin.lineno + 1 <= MOST_LINES_OF_COMMANDS, each.name


@pytest.mark.parametrize("name", sorted(MODULES))
def test_functions_are_short(name):
    assert {each.name for each in functions(name) if each.end_lineno - each.lineno + 1 > MOST_LINES} == set()


@pytest.mark.parametrize(("path", "limit"), [("*.py", 350), ("*.hpp", 500), ("*.cpp", 500)])
def test_files_are_short_or_say_why(path, limit):
    for top in (PACKAGE, NATIVE, *(SOURCES / name for name in ("tests", "benchmarks", "tools"))):
        for file in top.rglob(path):
            lines = file.read_text(encoding="utf-8").splitlines()
            opening = "\n".join(lines[:20])
            assert len(lines) <= limit or "long because" in opening.lower(), f"{file}: {len(lines)} lines"


def test_validate_holds_few_modules():
    """Its folders are other subjects: what arguments point to, how memory is compared, other pre-states."""
    folder = "kerncap_stages.validate"
    modules = [name for name in MODULES if folder_of(name) == folder and name != folder]
    assert 0 < len(modules) <= 15


def test_few_modules_lie_at_the_top():
    """All others are in a folder that says what they are about."""
    assert (
        len(
            [name for name in MODULES if name.count(".") == 1 and (PACKAGE / f"{part_of(name)}.py").is_file()]
        )
        <= 12
    )
