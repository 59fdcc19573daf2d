"""Replays of kernels that are Python functions: what one did is a function of the state before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from manifest_examples import capture as example_capture

from kerncap_stages.digest import MemoryRef
from kerncap_stages.manifests.replay import ReplayOutcome
from kerncap_stages.validate.judge import Judge
from kerncap_stages.validate.replays.baselines import Baselines
from kerncap_stages.validate.replays.replayer import Run
from kerncap_stages.validate.replays.speculation import Speculation
from kerncap_stages.validate.request import JudgeSettings

BASE = 0x7F0000000000
COUNT = 64
VARIANT = Path("/variant")


class Bench:
    """A replayer of kernels that are Python functions from float32[COUNT] to the same, in place."""

    def __init__(self, store, baseline, variant=None, before=None):
        self.store, self.kernels, self.replayed = store, {False: baseline, True: variant}, []
        self.fresh = 0  # replays of the captured kernel from fresh values
        self.known = []  # replays of the captured kernel that earlier validations kept
        start = np.arange(COUNT, dtype=np.float32) if before is None else before
        self.capture = self._capture(start)

    def _put(self, values):
        with self.store.begin_transaction() as transaction:
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

    def expect(self):
        """Nothing has to be prepared."""

    def watch_writes(self, _ranges):
        """These kernels do not tell where they write."""

    def run(self, start, variant, repeats=None):
        self.replayed.append(variant)
        self.fresh += start.is_fresh and variant is None
        before = self.store.read_memory(start.capture.regions[0].pre.digest).view(np.float32)
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

    def run_in_turn(self, first, further, variant, repeats=None, **_options):
        runs = [self.run(first, variant, repeats)]
        for start in further:
            if not runs[-1].completed:
                break
            runs.append(self.run(start, variant))
        return runs if runs[-1].completed or variant is None else None

    def judge(self, variant=VARIANT, limits=None, **settings):
        """Judge a variant. Inputs keep their captured values unless a seed is given."""
        settings.setdefault("fresh_values", "seed" in settings)
        with Speculation(self) as replays:
            known = {replay.key: replay for replay in self.known}.get
            self.baselines = Baselines(self.store, self.capture, replays, {}, known)
            judge = Judge(
                self.store, self.capture, None, JudgeSettings(**settings), self.baselines, replays, limits
            )
            return judge.judge(variant)

    def keep(self):
        """Let later validations know the captured kernel's replays of this one."""
        self.known += self.baselines.kept


def choose_device(bench, *, software):
    """Let the bench's capture come from the software GPU, or from another one; returns the bench."""
    device = bench.capture.environment.devices[0].model_copy(update={"software": software})
    environment = bench.capture.environment.model_copy(update={"devices": (device,)})
    bench.capture = bench.capture.model_copy(update={"environment": environment})
    return bench


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
