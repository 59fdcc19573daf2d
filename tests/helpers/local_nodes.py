"""Nodes of a cluster that are processes of this machine, with made-up workers."""

from __future__ import annotations

import sys
from pathlib import Path

from kerncap_stages.evaluate.channel import NodeLostError, StreamChannel

HELPERS = Path(__file__).parent


class LocalNodes:
    """A place whose nodes are processes of this machine, with made-up workers; some of them end early."""

    def __init__(self, free=3, words=("fake_node.py",), fails=()):
        self.free, self.words, self.fails = free, words, dict.fromkeys(fails, True)
        self.opened, self.left = [], 0

    def count_free(self):
        return self.free

    def open(self, number):
        self.opened.append(number)
        if self.fails.pop(len(self.opened), False):
            raise NodeLostError("the node is down")
        return StreamChannel([sys.executable, *(str(HELPERS / each) for each in self.words), str(number)])

    def leave(self):
        self.left += 1
