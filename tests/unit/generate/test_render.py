import manifest_examples

from kerncap_stages.generate.render import Part, render
from kerncap_stages.manifests.source import Outcome


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
