"""The driver of one instruction, for every file of tests that runs instructions alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from instruction_driver import InstructionDriver


@pytest.fixture(scope="module")
def driver() -> Iterator[InstructionDriver]:
    # Here, for pytest reads this file too where it looks for tests without the paths that meson gives.
    from instruction_driver import InstructionDriver

    running = InstructionDriver.from_environment()
    yield running
    running.close()
