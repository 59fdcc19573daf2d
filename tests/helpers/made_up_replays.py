"""Replays of kernels that are Python functions: what one did is a function of the state before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from manifest_examples import capture as example_capture

from kerncap_stages.digest import Digest, MemoryRef
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validation import judge as judge_module
from kerncap_stages.validation import runs as runs_module
from kerncap_stages.validation.judge import Judge
from kerncap_stages.validation.runs import Baselines, Run
from kerncap_stages.validation.settings import Settings

BASE = 0x7F0000000000
COUNT = 64
VARIANT = Path("/variant")


class Bench:
    """Replays kernels that are Python functions from float32[COUNT] to the same, in place."""

    def __init__(self, store, monkeypatch, baseline, variant=None, before=None):
        self.store, self.kernels, self.replayed = store, {False: baseline, True: variant}, []
        start = np.arange(COUNT, dtype=np.float32) if before is None else before
        self.capture = self._capture(start)
        monkeypatch.setattr(judge_module, "run_once", self.run_once)
        monkeypatch.setattr(runs_module, "run_once", self.run_once)

    def _put(self, values):
        with self.store.transaction() as transaction:
            made = MemoryRef.to(transaction.put_memory(values))
            transaction.publish_objects()
        return made

    def _capture(self, before):
        after = before.copy()
        self.kernels[False](after)
        example = example_capture()
        changed = (before != after).any()
        region = example.regions[0].model_copy(
            update={
                "base_address": BASE,
                "size_bytes": before.nbytes,
                "pre": self._put(before),
                "post": self._put(after),
                "written": ((0, before.nbytes),) if changed else (),
                "written_size_bytes": before.nbytes if changed else 0,
                "read_only": False,
                "left_out_reason": None,
            }
        )
        slot = example.kernel.slots[0].model_copy(update={"offset_bytes": 0, "size_bytes": 8, "name": "data"})
        kernel = example.kernel.model_copy(update={"slots": (slot,), "demangled_name": "k(float*)"})
        kernarg = BASE.to_bytes(8, "little").hex() + "00" * 512
        return example.model_copy(
            update={"regions": (region,), "kernel": kernel, "kernarg": kernarg, "module_variables": ()}
        )

    def run_once(self, store, capture, variant, *_, repeats=None, **__):
        self.replayed.append(variant)
        before = store.read_memory(capture.regions[0].pre.digest).view(np.float32)
        states = []
        try:
            for _ in range(1 + (repeats.count if repeats else 0)):
                values = before.copy()
                self.kernels[variant is not None](values)
                states.append({BASE: self._put(values)})
        except ValueError as error:
            return Run(ReplayOutcome.FAULTED, str(error), {})
        differing = [state for state in states[1:] if state != states[0]]
        return Run(
            ReplayOutcome.COMPLETED,
            None,
            states[0],
            further_runs=len(states) - 1,
            differing_runs=len(differing),
            differing=tuple(differing[: repeats.kept if repeats else 0]),
        )

    def judge(self, variant=VARIANT, **settings):
        asked = Settings(**settings)
        self.baselines = Baselines(
            self.store, self.capture, Digest("0" * 64), "machine", 10.0, gently=not asked.bounds.exact
        )
        return Judge(self.store, self.capture, None, asked, self.baselines).judge(variant)


def double(values):
    values *= 2


def fill(values):
    values[:] = 7


def every(period, wrong, right=double):
    """A kernel of which each so-manieth call is another one."""
    calls = iter(range(1, 1 << 30))

    def kernel(values):
        (wrong if next(calls) % period == 0 else right)(values)

    return kernel
