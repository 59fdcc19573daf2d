import manifest_examples
import pytest

from kerncap_stages.generate.render import Part, render
from kerncap_stages.manifests.source import Outcome, Unedited


def test_a_readme_holds_no_escape_sequence():
    source = manifest_examples.source().model_copy(
        update={
            "outcome": Outcome.NOT_FOUND,
            "explanation": "no \x1b[31mk\nin src",
            "definition": None,
            "compile_command": None,
        }
    )
    project = render([Part(manifest_examples.digest("capture"), manifest_examples.capture(), source)])
    assert "\x1b" not in project.files["README.md"].decode()
    assert "no \\x1b[31mk\nin src" in project.files["README.md"].decode()


@pytest.mark.parametrize(
    ("unedited", "expected"),
    [
        (Unedited(same_instructions=True), "This was checked: without an edit, the source compiles to the"),
        (Unedited(same_instructions=False, why="9 VGPRs"), "This was checked, and the program was built in"),
        (Unedited(same_instructions=None, why="no hipcc"), "This was not checked: no hipcc. Run `make"),
        (None, "This was not checked: kc-locate compiled nothing. Run `make"),
    ],
)
def test_a_readme_says_whether_an_assumed_command_was_checked(unedited, expected):
    source = manifest_examples.source()
    command = source.compile_command.model_copy(
        update={"database": None, "arguments": ("hipcc", "-O3", "-I/a b")}
    )
    source = source.model_copy(update={"compile_command": command, "unedited": unedited})
    part = Part(manifest_examples.digest("capture"), manifest_examples.capture(), source)
    text = render([part]).files["README.md"].decode()
    assert f"`hipcc -O3 '-I/a b'` is assumed.\n{expected}" in text
    assert ("To use the program's own flags" in text) == ("checked: without" not in expected)
    known = source.model_copy(update={"compile_command": command.model_copy(update={"database": "/db"})})
    text = render([Part(part.digest, part.capture, known)]).files["README.md"].decode()
    assert "is assumed" not in text
