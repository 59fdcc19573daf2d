"""A program under a collector that wants nothing: what watching it costs."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerncap_stages.collect.connection import LibrarySettings
from kerncap_stages.collect.program import ProgramSpec
from kerncap_stages.collect.protocol import Mode, ModuleEnd, Rule, Selected, UpMessage
from kerncap_stages.collect.server import Collector
from kerncap_stages.machine.softgpu import SoftGpu

if TYPE_CHECKING:
    from collections.abc import Sequence


class Silent:
    """A session that wants nothing, and says so."""

    def __init__(self, connection: Any, _emit: Any) -> None:
        self._connection = connection

    def handle(self, message: UpMessage) -> None:
        """Answer what has to be answered."""
        if isinstance(message, ModuleEnd):
            self._connection.send(Selected(message.module, 0, ()))

    def do_pending_work(self) -> None:
        """Make room for records."""
        self._connection.shared.take_records()

    def close(self) -> None:
        """Take the last records."""
        self.do_pending_work()


def watched(command: Sequence[object], mode: Mode = Mode.CAPTURE) -> str:
    """What a program prints while we watch it, on the software GPU."""
    with tempfile.NamedTemporaryFile() as printed:
        words = tuple(str(word) for word in command)
        spec = ProgramSpec(words, environment=SoftGpu("gfx90a").make_environment(), stdout=Path(printed.name))
        collector = Collector(spec, LibrarySettings(mode, rules=[Rule()]), Silent)
        try:
            for _ in collector.read_events(300):
                pass
        finally:
            collector.close()
        return Path(printed.name).read_text()


def number(text: str, name: str) -> float:
    """The number that a program printed after a name."""
    found = re.search(rf"^{name} ([\d.]+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])
