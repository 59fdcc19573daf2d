"""The stubs of the extension module name what it holds, no more and no less."""

from __future__ import annotations

import ast
from pathlib import Path

import kerncap_stages
from kerncap_stages import _native

STUBS = ast.parse((Path(kerncap_stages.__file__).parent / "_native.pyi").read_text(encoding="utf-8"))


def defined(body):
    """Names that stubs define."""
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return names | {node.target.id for node in body if isinstance(node, ast.AnnAssign)}


def public(namespace):
    return {name for name in vars(namespace) if not name.startswith("_") or name == "__init__"}


def test_module_and_stubs_have_the_same_names():
    assert defined(STUBS.body) == public(_native)


def test_classes_and_stubs_have_the_same_methods():
    for node in STUBS.body:
        if isinstance(node, ast.ClassDef):
            there = public(getattr(_native, node.name))
            if "__init__" not in defined(node.body):
                there.discard("__init__")
            assert defined(node.body) == there, node.name
