"""Every public name has a docstring; examples in docstrings compile, and doctests pass."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import orbitmq

PACKAGES = ["orbitmq.client", "orbitmq.admin", "orbitmq.message", "orbitmq.errors"]
NATIVE = {
    node.name: ast.get_docstring(node) or ""
    for node in ast.parse((Path(orbitmq.__file__).parent / "_native.pyi").read_text()).body
    if isinstance(node, ast.ClassDef | ast.FunctionDef)
}
OF_THE_STORE = {
    name
    for name in orbitmq.__all__
    if getattr(getattr(orbitmq, name), "__module__", "") == "orbitmq._native"
} - {"ReceivedMessage"}
"""Classes that read and write the files of a store; their docstrings are in the stub."""


def public_names() -> Iterator[tuple[str, str]]:
    """All names of the client, and their docstrings."""
    for name in orbitmq.__all__:
        value = getattr(orbitmq, name)
        if name in OF_THE_STORE or isinstance(value, str):
            continue
        yield name, NATIVE.get(name) or inspect.getdoc(value) or ""
        if not inspect.isclass(value) or name in NATIVE:
            continue
        for member in dir(value):
            if member.startswith("_") or member in dir(Exception):
                continue
            if callable(getattr(value, member)):
                yield f"{name}.{member}", inspect.getdoc(getattr(value, member)) or ""


NAMES = dict(public_names())


def examples(text: str) -> Iterator[str]:
    """What a docstring shows: inline, or the first paragraph after two colons."""
    for inline in re.findall(r"``([^`]*[(\[.][^`]*)``", text):
        if re.match(r"(?:\w+ in )?(?:admin|consumer|producer|message|sum|\[)", inline):
            yield inline
    for block in text.split("::\n\n")[1:]:
        yield textwrap.dedent(block.partition("\n\n")[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring_whose_examples_compile(name: str) -> None:
    text = NAMES[name]
    assert text.strip(), f"{name} has no docstring"
    for code in examples(text):
        compile(code, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_examples_are_found() -> None:
    assert sum(len(list(examples(text))) for text in NAMES.values()) > 100


@pytest.mark.parametrize(
    "text", ["Closes. ``producer.close(`` when done.", "Sends. ::\n\n    producer.send(\n\nMore."]
)
def test_an_example_that_is_no_python_is_found(text: str) -> None:
    (code,) = examples(text)
    with pytest.raises(SyntaxError):
        compile(code, "example", "exec")


def modules() -> Iterator[str]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        yield package
        for info in pkgutil.walk_packages(getattr(module, "__path__", []), f"{package}."):
            yield info.name


def test_what_is_shown_comes_out() -> None:
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    tried = 0
    for name in modules():
        module = importlib.import_module(name)
        for test in finder.find(module, name, extraglobs={"orbitmq": orbitmq}):
            tried += len(test.examples)
            runner.run(test)
    assert runner.failures == 0
    assert tried > 20
