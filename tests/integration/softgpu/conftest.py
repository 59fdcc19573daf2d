"""Builds the GPU test programs of the selected tests, all of them at once, before the first one runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from programs import Build, compile_all
from softgpu import refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="session")
def executable(request: pytest.FixtureRequest) -> Callable[[Build], Path]:
    """Path of a build's program; fails with the compiler's words when it did not compile."""
    wanted = {item.callspec.params["build"]: None for item in request.session.items
              if hasattr(item, "callspec") and "build" in item.callspec.params}  # fmt: skip
    results = compile_all([build for build in wanted if not refusal(build.rocm)])

    def find(build: Build) -> Path:
        if reason := refusal(build.rocm):
            pytest.skip(reason)
        result = results[build]
        if isinstance(result, Exception):
            pytest.fail(str(result), pytrace=False)
        return result

    return find
