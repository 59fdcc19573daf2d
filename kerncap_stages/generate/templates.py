"""Loads the templates of projects: Makefiles, Markdown, scripts. Who fills one in quotes the values."""

from __future__ import annotations

import jinja2

from kerncap_stages.generate.request import TEMPLATES


def make_environment(folder: str = "") -> jinja2.Environment:
    """Make an environment for the templates of a folder: an unknown name in one is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES / folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - none is HTML
    )
