"""Kernels that hipRTC compiles: captured, traced to their source, compiled by hipcc, edited and judged."""

from __future__ import annotations

import pytest
from programs import Build, compile_once, program_named
from triton_package import judge

TARGET = "gfx90a"


@pytest.fixture(scope="module")
def program():
    return compile_once(Build(program_named("run_time_compiled"), TARGET, "O3"))


def test_without_the_library_the_kernel_is_captured_alone(stages, program):
    stages.variables["KERNCAP_RTC"] = "0"
    (digest,) = stages.capture("blend", program, TARGET, options=("--stop-after",))
    assert stages.show(digest)["kernel"]["rtc"] is None
    source = stages.run("locate", digest).must().digests[0]
    assert "loaded its code from memory" in stages.show(source)["explanation"]


@pytest.mark.parametrize("how", [(), ("opened",)])
def test_a_kernel_becomes_a_project_of_its_own_source(stages, tmp_path, program, how):
    first, second = stages.capture("blend", program, TARGET, *how, options=("--count", 2))
    recorded = [stages.show(each)["kernel"]["rtc"] for each in (first, second)]
    assert [[option for option in each["options"] if "FACTOR" in option] for each in recorded] == [
        ["-DFACTOR=2"],
        ["-DFACTOR=3"],
    ]
    source = stages.run("locate", second).must().digests[0]
    found = stages.show(source)
    assert found["definition"]["path"] == "/hiprtc/blend.cu"
    assert found["definition"]["line"] == 4
    assert found["unedited"]["same_instructions"] is True
    project = tmp_path / "project"
    stages.run("generate", source, "-o", project).must()
    assert "Result: PASS  (byte-exact" in judge(project, stages)
    kernel, header = project / "kernel_variant.cpp", project / "deps/include/blend/blend.h"
    kernel.write_text(kernel.read_text().replace("right[i])", "right[i], 1)"))
    header.write_text(
        header.read_text().replace("T right", "T right, int more").replace("+ right", "+ right * more")
    )
    assert "Result: PASS" in judge(project, stages)
    kernel.write_text(kernel.read_text().replace("right[i], 1)", "right[i], 2)"))
    assert "Result: FAIL" in judge(project, stages)
