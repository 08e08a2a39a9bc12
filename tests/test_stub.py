"""The stub against the module, beyond what stubtest compares."""

import ast
from collections.abc import Iterator
from pathlib import Path

import orbitmq
from orbitmq import _native

STUB = ast.parse((Path(orbitmq.__file__).parent / "_native.pyi").read_text())


def _public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from _public(node.body, f"{node.name}.")


def test_every_public_name_says_what_it_is() -> None:
    silent = [
        name
        for name, node in _public(STUB.body)
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is None
    ]
    assert silent == []


def test_the_stub_lists_the_names_of_the_module() -> None:
    top = {name for name, _ in _public(STUB.body) if "." not in name}
    constants = {
        node.target.id
        for node in STUB.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert top | constants == set(_native.__all__)


def test_what_the_package_exports_is_there() -> None:
    for name in orbitmq.__all__:
        assert hasattr(orbitmq, name), name
