"""kerncap-replay: the documented command that replays a project."""

from __future__ import annotations

from typing import Annotated

import typer

from kerncap_stages.cli.options import ReplayTimeoutOption, VersionOption, make_stage_app
from kerncap_stages.compat import documented
from kerncap_stages.errors import Refused

app = make_stage_app()


@app.command(
    epilog=documented.make_documented_epilog(
        "kerncap-replay ./isolated/scale --hsaco ./isolated/scale/optimized.hsaco -n 20"
    )
)
def kerncap_replay(
    reproducer_dir: documented.ProjectArgument,
    hsaco: documented.HsacoOption = None,
    iterations: documented.IterationsOption = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    dump_output: documented.DumpOption = False,
    hip_launch: documented.HipLaunchOption = False,
    no_recopy: Annotated[
        bool,
        typer.Option("--no-recopy", help="Refused: a run would start from the results of the run before."),
    ] = False,
    timeout: ReplayTimeoutOption = 300.0,
    version: VersionOption = False,  # noqa: ARG001 - the option acts by itself
) -> int:
    """Run a project's captured dispatch again, alone, at its original addresses."""
    if no_recopy:
        raise Refused(
            "--no-recopy is refused: a run that starts from another run's results is not the captured "
            "dispatch",
            hint="leave it out: between runs only the memory that the kernel writes is restored",
        )
    return documented.replay_command(
        reproducer_dir, hsaco, iterations, dump=dump_output, hip=hip_launch, timeout=timeout, as_json=json
    )


def main() -> None:
    """Run the command."""
    documented.run_documented(app)
