"""Prints the public API as stable text, so that two versions can be compared.

Usage: ``python -m tools.public_api [--write]``. The text lists

- the names of `MODULES` with their signatures, members, values and base classes; classes of the
  native module are read from its stub,
- all commands of ``orbitmq`` with their arguments and options,
- RocketMQ's programs that the package installs,
- the keys of JSON output, taken from the sources of the commands,
- the exit codes, and the options of the Spark formats.

``--write`` stores it in `SNAPSHOT`, which a test compares (``make api``).
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import importlib
import inspect
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

__all__ = ["SNAPSHOT", "main", "public_api"]

ROOT: Final = Path(__file__).parent.parent
SNAPSHOT: Final = ROOT / "tests" / "tools" / "public_api.txt"
MODULES: Final = (
    "orbitmq",
    "orbitmq.errors",
    "orbitmq.spark",
    "orbitmq.storelog",
    "orbitmq.testing",
)
STUB: Final = ROOT / "src" / "orbitmq" / "_native.pyi"
COMMANDS: Final = ROOT / "src" / "orbitmq" / "cli"
SPARK_OPTIONS: Final = {
    "rocketmq, source": ("orbitmq.spark.source.options", "SOURCE_OPTIONS"),
    "rocketmq, sink": ("orbitmq.spark.sink.options", "SINK_OPTIONS"),
    "rocketmq-store": ("orbitmq.spark.table.options", "STORE_OPTIONS"),
}
SHARED_BY: Final = 30
"""Options that so many commands have are listed once."""
JSON_KEY: Final = re.compile(r"[a-z][A-Za-z0-9]*")


def public_api() -> str:
    """Return the whole text."""
    lines: list[str] = []
    for name in MODULES:
        lines += [f"# module {name}", *_module(importlib.import_module(name)), ""]
    lines += ["# command line", *_commands(), ""]
    lines += ["# programs", *_programs(), ""]
    lines += ["# keys of JSON output", *sorted(_json_keys()), ""]
    lines += ["# exit codes", *_exit_codes(), ""]
    for title, (module, name) in SPARK_OPTIONS.items():
        options = getattr(importlib.import_module(module), name)
        lines += [f"# options of {title}", *sorted(options), ""]
    return "\n".join(lines)


# ---- Python -------------------------------------------------------------------------------------


def _module(module: ModuleType) -> Iterator[str]:
    stub = {
        node.name: node
        for node in ast.parse(STUB.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }
    for name in sorted(module.__all__):
        value = getattr(module, name)
        if getattr(value, "__module__", "") == "orbitmq._native" and name in stub:
            yield from _of_stub(stub[name])
        elif inspect.isclass(value):
            yield from _class(name, value)
        elif callable(value):
            yield f"{name}{_signature(value)}"
        elif name.startswith("__"):
            yield name  # a version is no interface
        else:
            yield f"{name}: {type(value).__name__}"


def _of_stub(node: ast.ClassDef | ast.FunctionDef) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef):
        returns = ast.unparse(node.returns) if node.returns else ""
        yield f"{node.name}({ast.unparse(node.args)}) -> {returns}"
        return
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"class {node.name}({bases})" if bases else f"class {node.name}"
    members = []
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            members.append(f"  {node.name}.{item.target.id}: {ast.unparse(item.annotation)}")
        if not isinstance(item, ast.FunctionDef) or _is_private(item.name):
            continue
        returns = ast.unparse(item.returns) if item.returns else ""
        if any(ast.unparse(each) == "property" for each in item.decorator_list):
            members.append(f"  {node.name}.{item.name}: {returns}")
        else:
            members.append(f"  {node.name}.{item.name}({ast.unparse(item.args)}) -> {returns}")
    yield from sorted(members)


def _is_private(name: str) -> bool:
    return name.startswith("_") and name not in ("__init__", "__new__")


def _class(name: str, value: type) -> Iterator[str]:
    public = {each for module in MODULES for each in importlib.import_module(module).__all__}
    bases = [
        base.__name__
        for base in value.__mro__[1:]
        if base.__name__ in public
        or not (base.__module__.startswith("orbitmq") or base in (BaseException, object))
    ]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if issubclass(value, enum.Enum):
        yield from (f"  {name}.{member.name} = {member.value!r}" for member in value)
        return
    if not issubclass(value, BaseException):
        yield f"  {name}{_signature(value)}"
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    annotated = {field.name: str(field.type) for field in fields}
    for each in value.__mro__:
        if each.__module__.startswith("orbitmq"):
            for attribute, annotation in inspect.get_annotations(each).items():
                annotated.setdefault(attribute, str(annotation))
    inherited = {*dir(Exception), *dir(object)}
    for member in sorted({*annotated, *dir(value)} - inherited):
        if not member.startswith("_"):
            yield f"  {name}.{member}{_member(value, member, annotated)}"


def _member(owner: type, name: str, annotated: dict[str, str]) -> str:
    found = inspect.getattr_static(owner, name, None)
    if isinstance(found, property):
        returned = inspect.signature(found.fget).return_annotation if found.fget else "?"
        return f": {returned}"
    if isinstance(found, staticmethod | classmethod) or inspect.isfunction(found):
        return _signature(getattr(owner, name))
    kind = annotated.get(name, type(found).__name__)
    return f": {kind} = {found}" if isinstance(found, bool | int | str | enum.Enum) else f": {kind}"


def _signature(value: Any) -> str:
    """Return a signature with annotations as they are written."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    return re.sub(r"(: |-> )(['\"])(.*?)\2(?=[,)=\s]|$)", r"\1\3", str(signature))


# ---- command line -------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    from orbitmq.cli import main as program

    found = dict(_tree("orbitmq", program, click.Context(program)))
    uses = Counter(chain.from_iterable(found.values()))
    shared = [parameter for parameter, count in uses.items() if count >= SHARED_BY]
    yield "shared options"
    yield from (f"  {parameter}" for parameter in shared)
    for path, parameters in found.items():
        yield path
        missing = [parameter.split()[0] for parameter in shared if parameter not in parameters]
        if len(missing) < len(shared):
            yield f"  shared options{' without ' if missing else ''}{', '.join(missing)}"
        yield from (f"  {parameter}" for parameter in parameters if parameter not in shared)


def _tree(
    path: str, command: click.Command, context: click.Context
) -> Iterator[tuple[str, list[str]]]:
    """Yield every command with its arguments and options."""
    yield path, [_parameter(parameter) for parameter in command.params]
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            inner = command.get_command(context, name)
            assert inner is not None, "list_commands lists commands that exist"
            yield from _tree(f"{path} {name}", inner, click.Context(inner, parent=context))


def _parameter(parameter: click.Parameter) -> str:
    names = "/".join([*parameter.opts, *parameter.secondary_opts])
    said = [names if isinstance(parameter, click.Option) else f"<{names}>"]
    kind = parameter.type
    said.append("|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name)
    if isinstance(parameter, click.Option) and parameter.is_flag:
        said[-1] = "flag"
    if parameter.required:
        said.append("required")
    if getattr(parameter, "multiple", False):
        said.append("multiple")
    if parameter.nargs != 1:
        said.append(f"nargs={parameter.nargs}")
    default = parameter.default
    if isinstance(default, str | int | float | Path) and default is not False:
        said.append(f"default={default}")
    if parameter.envvar:
        said.append(f"env={parameter.envvar}")
    return " ".join(said)


def _programs() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return sorted(project["scripts"])


def _json_keys() -> set[str]:
    """Return the keys of columns and of the dictionaries that commands build."""
    keys = set()
    for file in COMMANDS.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            found: Sequence[ast.expr | None] = ()
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Column":
                found = node.args[:1]
            elif isinstance(node, ast.Dict):
                found = node.keys
            keys |= {
                key.value
                for key in found
                if isinstance(key, ast.Constant)
                and isinstance(key.value, str)
                and JSON_KEY.fullmatch(key.value)
            }
    return keys


def _exit_codes() -> list[str]:
    from orbitmq.cli.core.exits import ExitCode

    return [f"{code.value} {code.name}" for code in ExitCode]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the text, or write it to the snapshot."""
    parser = argparse.ArgumentParser(prog="python -m tools.public_api")
    parser.add_argument("--write", action="store_true", help=f"write {SNAPSHOT.name} instead")
    options = parser.parse_args(arguments)
    if options.write:
        SNAPSHOT.write_text(public_api())
    else:
        sys.stdout.write(public_api())
    return 0


if __name__ == "__main__":
    sys.exit(main())
