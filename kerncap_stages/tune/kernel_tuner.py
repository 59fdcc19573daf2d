"""Kernel Tuner with verdicts: its strategies search, and kc-evaluate's workers judge and time.

Kernel Tuner takes a strategy from its user. The one here runs any of Kernel Tuner's own strategies on a
runner that hands configurations to a session of ``kerncap_stages.evaluate``. Kernel Tuner itself compiles and
launches nothing, so it is called in its simulation mode, which needs no GPU.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_tuner import tune_kernel  # type: ignore[import-not-found] # the caller brings it
from kernel_tuner.interface import strategy_map  # type: ignore[import-not-found]
from kernel_tuner.runners.runner import Runner  # type: ignore[import-not-found]
from kernel_tuner.util import (  # type: ignore[import-not-found]
    CompilationFailedConfig,
    InvalidConfig,
    RuntimeFailedConfig,
    process_metrics,
)

from kerncap_stages.errors import UsageError
from kerncap_stages.evaluate.session import EvaluateSettings, Session
from kerncap_stages.evaluate.subject import Subject, open_subject
from kerncap_stages.evaluate.workers import choose_count
from kerncap_stages.machine.temporary import TemporaryFolder
from kerncap_stages.manifests.evaluation import Outcome
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.store import Store
from kerncap_stages.tune.devices import require_one_device
from kerncap_stages.tune.making import VariantMaker
from kerncap_stages.tune.space import NAME, make_space, read_space

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Self

    from kerncap_stages.manifests.evaluation import EvaluatedVariant
    from kerncap_stages.tune.space import Configuration, Space, Value

    Params = dict[str, Any]

OBJECTIVE = "ratio"
_ERRORS = {
    Outcome.WRONG: RuntimeFailedConfig,
    Outcome.UNJUDGED: RuntimeFailedConfig,
    Outcome.NOT_BUILT: CompilationFailedConfig,
    Outcome.REFUSED: InvalidConfig,
}


def tune_project(
    project: str | Path,
    tune_params: Mapping[str, Sequence[Value]],
    *,
    strategy: Any = "brute_force",
    settings: EvaluateSettings | None = None,
    **options: Any,
) -> tuple[list[Params], Params]:
    """Tune a project with Kernel Tuner, and return what its ``tune_kernel`` returns.

    project: the folder that kc-generate made. If it holds a ``tune.toml``, that says where each value goes;
    otherwise each parameter is a ``-D`` value. options: of ``tune_kernel``, such as ``restrictions``,
    ``strategy_options`` and ``metrics``. The objective is ``ratio``: the variant's time, or its instructions
    on the software GPU, over the captured kernel's. A result also has ``time`` in milliseconds, or
    ``instructions``. Wrong configurations have ``__error__``, as those that Kernel Tuner cannot run.
    Raises UsageError if the parameters are not those of the project.
    """
    return tune_kernel(  # type: ignore[no-any-return]
        *(Path(project).resolve().name, lambda _params: "", 1, []),
        {name: list(values) for name, values in tune_params.items()},
        lang="HIP",  # says nothing here: there is no source
        simulation_mode=True,
        strategy=ProjectStrategy(project, strategy, settings),
        **{"objective": OBJECTIVE, "objective_higher_is_better": False, **options},
    )


class ProjectStrategy:
    """A strategy for ``tune_kernel(..., simulation_mode=True)``: one of Kernel Tuner's, on a project."""

    def __init__(
        self,
        project: str | Path,
        strategy: Any = "brute_force",
        settings: EvaluateSettings | None = None,
    ) -> None:
        """``strategy``: a name that Kernel Tuner knows, or an object as it takes one."""
        self._project = Path(project)
        self._name = strategy
        self._strategy = strategy_map[strategy] if isinstance(strategy, str) else strategy
        self._settings = settings or EvaluateSettings()

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[Params]:
        """Search; Kernel Tuner calls this. ``runner``: its own, of which only the description is used."""
        tuning_options["strategy"] = self._name  # some of its strategies read their name there
        with ProjectRunner(self._project, searchspace.tune_params, self._settings, runner) as judged:
            found: list[Params] = self._strategy.tune(searchspace, judged, tuning_options)
        return found


class ProjectRunner(Runner):  # type: ignore[misc]
    """Builds, judges and times configurations of a project during a ``with`` block."""

    def __init__(
        self,
        project: Path,
        tune_params: Mapping[str, Sequence[Value]],
        settings: EvaluateSettings,
        described_by: Any,
    ) -> None:
        """``described_by``: a runner of Kernel Tuner's, which says what device it supposes."""
        super().__init__()
        opened = find_project(f"{project}/")
        if opened is None:
            raise UsageError(f"{project} is not a project", hint="give the folder that kc-generate made")
        store = Store.open(opened.store, create=False)
        subject = Subject(store, opened.captures)
        read = open_subject(subject, settings.judge)
        self._jobs = choose_count(settings.workers, read.first)
        self._names = tuple(tune_params)
        self._space = _choose_space(project, tune_params)
        self._work = TemporaryFolder("tune")
        self._maker = VariantMaker(project, self._space, read.captures, self._work.path, 2 * self._jobs)
        self._session = Session(subject, settings)
        self._known: dict[Configuration, Params] = {}
        self._device: str | None = None
        self._described_by = described_by
        self.dev = described_by.get_device_info()  # some strategies ask it for the most work-items
        self.units: dict[str, str] = {"time": "ms"}
        self.simulation_mode = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the workers, and publish the evaluation in the project's store."""
        if error is not None:
            self._maker.close()  # what is still built is not waited for
        with contextlib.ExitStack() as stack:
            stack.callback(self._work.remove)
            stack.callback(self._maker.close)
            self._session.end(now=error is not None)

    def get_device_info(self) -> Any:
        """Return the device that Kernel Tuner supposes."""
        return self._described_by.get_device_info()

    def get_environment(self, tuning_options: Any) -> Any:
        """Return what Kernel Tuner records of the machine; the evaluation says more."""
        return self._described_by.get_environment(tuning_options)

    def available_parallelism(self) -> int:
        """How many configurations are judged at the same time."""
        return self._jobs

    def run(self, parameter_space: Iterable[Sequence[Value]], tuning_options: Any) -> list[Params | None]:
        """Judge and time configurations; None for those that the budget has no room for."""
        asked: list[Configuration | None] = []
        judging: dict[Configuration, Future[EvaluatedVariant]] = {}
        for element in parameter_space:
            if tuning_options.budget.is_done():
                asked.append(None)
                continue
            tuning_options.budget.add_evaluations(1)
            values = dict(zip(self._names, element, strict=True))
            configuration = self._space.make(tuple(values[name] for name in self._space.names))
            asked.append(configuration)
            if configuration not in self._known and configuration not in judging:
                if self._space.is_allowed(configuration):
                    judging[configuration] = self._session.submit(self._maker.make(configuration))
                else:
                    self._known[configuration] = {"__error__": InvalidConfig("a constraint forbids it")}
        for configuration, future in judging.items():
            variant = future.result()
            self._device = require_one_device(self._device, variant)
            self._known[configuration] = _describe(variant)
        return [None if each is None else self._complete(each, tuning_options) for each in asked]

    def _complete(self, configuration: Configuration, tuning_options: Any) -> Params:
        found = {**configuration.as_dict(), **self._known[configuration]}
        if tuning_options.metrics and "__error__" not in found:
            found = process_metrics(found, tuning_options.metrics)
        return {**found, "timestamp": str(datetime.now(UTC))}


def _choose_space(project: Path, tune_params: Mapping[str, Sequence[Value]]) -> Space:
    if not (project / NAME).exists():
        return make_space({name: list(values) for name, values in tune_params.items()})
    space = read_space(project / NAME)
    if set(space.names) != set(tune_params):
        raise UsageError(
            f"{project / NAME} has the parameters {', '.join(space.names)}",
            hint="give values for these, or move the file away: then each parameter is a -D value",
        )
    return space


def _describe(variant: EvaluatedVariant) -> Params:
    if variant.outcome is not Outcome.RIGHT:
        return {"__error__": _ERRORS[variant.outcome](variant.reasons[0] if variant.reasons else "")}
    if variant.ratio is None:
        return {"__error__": RuntimeFailedConfig("it could not be timed")}
    found: Params = {OBJECTIVE: variant.ratio}
    times = [each.time for each in variant.cases if each.time is not None]
    if all(each.variant_ns is not None for each in times):
        found["time"] = sum(each.variant_ns or 0.0 for each in times) / 1e6
    else:
        found["instructions"] = sum(each.variant_instructions or 0 for each in times)
    return found
