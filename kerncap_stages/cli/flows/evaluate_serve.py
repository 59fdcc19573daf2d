"""What kc-evaluate-serve does: open the projects, print the address and the token, and serve."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap_stages.cli.artifacts import list_for_user
from kerncap_stages.cli.console import say
from kerncap_stages.cli.flows.evaluate import find_subject, make_evaluate_settings
from kerncap_stages.errors import UsageError
from kerncap_stages.project.artifacts import find_project
from kerncap_stages.serve.server import choose_token, describe, is_loopback, listen, serve
from kerncap_stages.serve.subjects import Subjects
from kerncap_stages.store import Store
from kerncap_stages.text.terminal import make_printable

if TYPE_CHECKING:
    from kerncap_stages.cli.evaluate_options import JudgingOptions
    from kerncap_stages.digest import Digest
    from kerncap_stages.evaluate.subject import Subject


@dataclass(frozen=True)
class ServeArguments:
    """Where to serve, and how to evaluate."""

    projects: tuple[str, ...]
    host: str
    port: int
    token_file: Path | None
    max_body_mib: int
    judging: JudgingOptions


def serve_evaluations(store_folder: Path | None, arguments: ServeArguments) -> None:
    """Serve until a signal comes."""
    settings = make_evaluate_settings(arguments.judging)
    token = choose_token(arguments.token_file)
    projects = _open_projects(store_folder, arguments.projects)
    subjects = Subjects(Store.open(store_folder), projects, settings.judge)
    subjects.open_projects()

    def list_it(subject: Subject, digest: Digest) -> None:
        list_for_user(subject.store, digest, store_folder)

    with closing(listen(arguments.host, arguments.port)) as listener:
        print(describe(listener, token), flush=True)
        if not is_loopback(listener):
            say(
                "note: this is HTTP without encryption, and other machines reach it: whoever reads the "
                "network reads the token; put a proxy with TLS before it"
            )
        if token.readable:
            say(
                f"note: other users may read {make_printable(str(arguments.token_file))}, and so the token; "
                "chmod 600 keeps it to you"
            )
        body_bytes = arguments.max_body_mib << 20
        serve(listener, token, subjects, settings, body_bytes, list_it, _log)


def _log(line: str) -> None:
    say(make_printable(line))


def _open_projects(store_folder: Path | None, folders: tuple[str, ...]) -> dict[str, Subject]:
    projects: dict[str, Subject] = {}
    for each in folders:
        if find_project(each) is None:
            missing = f"no such folder: {each}" if not Path(each).is_dir() else f"{each} is not a project"
            raise UsageError(
                make_printable(missing),
                hint="give folders that kc-generate made; a client names captures of your store by digests",
            )
        subject = find_subject(store_folder, each, ())
        assert subject.project is not None
        name = subject.project.resolve().name
        if name in projects:
            raise UsageError(
                f"two projects are named {make_printable(name)}", hint="rename one of the folders"
            )
        projects[name] = subject
    return projects
