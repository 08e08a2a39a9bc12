"""Prints counts of how easily the sources are read.

Usage: ``python -m tools.house [DIRECTORY] [--list KEY] [--walk]``. The directory holds the packages
(``src`` by default). ``--list`` prints the places behind one count, ``--walk`` the import closures
of one message and of one micro-batch of Spark.

- *Modules* are Python files but ``__init__.py``; *lines of code* leave out blank lines, comments
  and docstrings.
- *Indirect* docstrings begin with What, Who, Which, Where, How, Whether and the like. *Indirect
  words* are those of `INDIRECT_WORDS`, counted in docstrings.
- An *import cycle* is a set of modules that import each other, late imports included.
- A *decision by error text* compares or searches the text of a caught error.
- An *attribute set from outside* is an assignment to ``self.part.attribute``.
- A *copy* is a pair of equal runs of at least `COPY_LINES` lines of code in two files.
- A *shared request* is a request code that several packages outside the servers name.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import statistics
import sys
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Final

__all__ = ["COUNTS", "Count", "Source", "closure", "main", "read_sources"]

INDIRECT_STARTS: Final = re.compile(
    r"(What|Who|Whom|Whose|Which|Where|How|Whether|Whoever|Whatever|Wherever)\b"
)
INDIRECT_WORDS: Final = re.compile(
    r"\b(whoever|whom|nobody|somebody|anew|in vain|(?:is|are) told|so many|had better"
    r"|wish(?:es)?|beside|(?:is|are) none)\b",
    re.IGNORECASE,
)
COPY_LINES: Final = 6
COPY_CHARACTERS: Final = 120
"""Least length of a copied run, so that closing brackets are no copy."""
SERVERS: Final = frozenset({"broker", "nameserver", "protocol", "remoting"})
"""Packages that handle requests or define their codes, and so name them."""

WALKS: Final = {
    "one message": [
        ("client", "Producer"),
        ("broker", "SendHandlers"),
        ("broker", "PullHandlers"),
        ("client", "PushConsumer"),
    ],
    "one micro-batch": [
        ("spark", "RocketMQStreamReader"),
        ("spark", "RocketMQBatchReader"),
        ("spark", "RocketMQStreamWriter"),
    ],
    "a broker": [("broker", "Broker")],
}
"""Classes from which a walk starts, each with the package that defines it."""

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
CODELESS_TOKENS: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.NEWLINE,
        tokenize.NL,
    }
)


@dataclass(frozen=True)
class Source:
    """One Python file, its dotted name and its syntax tree."""

    name: str
    is_package: bool
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def docstrings(self) -> list[tuple[ast.Module | Definition, str]]:
        """The docstrings of the module, its classes and its functions."""
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, ast.Module | Definition)]
        return [(node, text) for node in nodes if (text := ast.get_docstring(node))]

    @cached_property
    def code(self) -> list[tuple[int, str]]:
        """The lines of code without indentation, each with its number."""
        numbers: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in CODELESS_TOKENS:
                numbers.update(range(token.start[0], token.end[0] + 1))
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and _is_text(node.value):
                numbers.difference_update(range(node.lineno, (node.end_lineno or 0) + 1))
        lines = self.text.splitlines()
        return [(number, lines[number - 1].strip()) for number in sorted(numbers)]

    def at(self, node: ast.expr | ast.stmt | ast.excepthandler, text: str = "") -> str:
        """Return the place of a node, for a list."""
        return f"{self.name}:{node.lineno} {text or ast.unparse(node)}"


def read_sources(directory: Path) -> list[Source]:
    """Read all packages below a directory."""
    found = []
    for file in sorted(directory.rglob("*.py")):
        parts = file.relative_to(directory).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        found.append(Source(name, is_package, file.read_text()))
    return found


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _modules(sources: Sequence[Source]) -> list[Source]:
    return [source for source in sources if not source.is_package]


# ---- counts: each returns its value and the places behind it ------------------------------------

Found = tuple[str, list[str]]


def modules(sources: Sequence[Source]) -> Found:
    """Count the modules."""
    names = [source.name for source in _modules(sources)]
    return str(len(names)), names


def median_lines(sources: Sequence[Source]) -> Found:
    """Take the median of the lines of code of the modules."""
    sizes = {source.name: len(source.code) for source in _modules(sources)}
    listed = [f"{size:5d} {name}" for name, size in sorted(sizes.items(), key=lambda pair: pair[1])]
    return f"{statistics.median(sizes.values()):g}" if sizes else "0", listed


def _share(part: Sequence[str], whole: int) -> Found:
    return f"{len(part)} of {whole} ({100 * len(part) / whole if whole else 0:.1f} %)", list(part)


def indirect_docstrings(sources: Sequence[Source]) -> Found:
    """Count the docstrings that begin with a relative or interrogative word."""
    return _indirect(sources, lambda node: True)


def indirect_classes(sources: Sequence[Source]) -> Found:
    """Count the docstrings of classes that begin so."""
    return _indirect(sources, lambda node: isinstance(node, ast.ClassDef))


def _indirect(sources: Sequence[Source], wanted: Callable[[ast.AST], bool]) -> Found:
    texts = [
        (f"{source.name}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}", text)
        for source in sources
        for node, text in source.docstrings
        if wanted(node)
    ]
    return _share([place for place, text in texts if INDIRECT_STARTS.match(text)], len(texts))


def indirect_words(sources: Sequence[Source]) -> Found:
    """Count the indirect words per 10 000 words of docstrings."""
    words, found = 0, []
    for source in sources:
        for node, text in source.docstrings:
            words += len(text.split())
            place = f"{source.name}:{getattr(node, 'lineno', 1)}"
            found += [f"{place} {match[0]}" for match in INDIRECT_WORDS.finditer(text)]
    return f"{10_000 * len(found) / words if words else 0:.1f}", found


def gerund_modules(sources: Sequence[Source]) -> Found:
    """Count the modules whose name ends with -ing."""
    names = [source.name for source in _modules(sources) if source.name.endswith("ing")]
    return str(len(names)), names


def _twice(names: Mapping[str, list[str]]) -> Found:
    listed = [
        f"{name}: {', '.join(places)}" for name, places in sorted(names.items()) if len(places) > 1
    ]
    return str(len(listed)), listed


def class_names_twice(sources: Sequence[Source]) -> Found:
    """Count the class names that several modules define."""
    names = defaultdict(list)
    for source in sources:
        for name in {node.name for node in source.tree.body if isinstance(node, ast.ClassDef)}:
            names[name].append(source.name)
    return _twice(names)


def module_names_twice(sources: Sequence[Source]) -> Found:
    """Count the names that several modules have."""
    names = defaultdict(list)
    for source in _modules(sources):
        names[source.name.rpartition(".")[2]].append(source.name)
    return _twice(names)


def import_cycles(sources: Sequence[Source]) -> Found:
    """Count the sets of modules that import each other, late imports included."""
    graph = _imports(sources, late=True)
    cycles = [group for group in _strongly_connected(graph) if len(group) > 1]
    return str(len(cycles)), [" ⇄ ".join(sorted(group)) for group in cycles]


def decisions_by_text(sources: Sequence[Source]) -> Found:
    """Count the decisions that search or compare the text of a caught error.

    The text may also be the argument of a function of the same module that decides by it.
    """
    found = []
    for source in sources:
        deciders: set[tuple[str, int]] = set()
        for handler in ast.walk(source.tree):
            if isinstance(handler, ast.ExceptHandler) and handler.name is not None:
                error = handler.name
                found += _decisions(source, handler, partial(_is_text_of, error=error))
                deciders |= _called_with_text(handler, error)
        for function in source.tree.body:
            if isinstance(function, ast.FunctionDef):
                names = [argument.arg for argument in function.args.args]
                texts = {name for at, name in enumerate(names) if (function.name, at) in deciders}
                found += _decisions(source, function, partial(_is_name_of, names=texts))
    return str(len(found)), found


def _decisions(source: Source, inside: ast.AST, is_text: Callable[[ast.AST], bool]) -> list[str]:
    found = []
    for node in ast.walk(inside):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and _searches(node.func):
            sides = [node.func, *node.args]
        if any(is_text(part) for side in sides for part in ast.walk(side)):
            assert isinstance(node, ast.expr)
            found.append(source.at(node))
    return found


def _searches(function: ast.expr) -> bool:
    names = {"startswith", "endswith", "find", "match", "search", "fullmatch"}
    return isinstance(function, ast.Attribute) and function.attr in names


def _is_text_of(node: ast.AST, error: str) -> bool:
    """Return whether a node is ``str(error)`` or ``error.args``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
        return any(_is_name_of(each, {error}) for each in node.args)
    return (
        isinstance(node, ast.Attribute) and node.attr == "args" and _is_name_of(node.value, {error})
    )


def _is_name_of(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _called_with_text(handler: ast.AST, error: str) -> set[tuple[str, int]]:
    """Return the functions that get the text of an error, and at which position."""
    return {
        (node.func.id, position)
        for node in ast.walk(handler)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != "str"
        for position, argument in enumerate(node.args)
        if _is_text_of(argument, error)
    }


def attributes_set_outside(sources: Sequence[Source]) -> Found:
    """Count the assignments to attributes of parts, ``self.part.attribute``."""
    found = []
    for source in sources:
        for node in ast.walk(source.tree):
            for target in _targets(node):
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Attribute)
                    and _is_name_of(target.value.value, {"self"})
                ):
                    found.append(source.at(target))
    return str(len(found)), found


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [
            part
            for target in node.targets
            for part in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def copies(sources: Sequence[Source]) -> Found:
    """Count the pairs of equal runs of lines in different files."""
    windows: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    lines = [_copyable(source) for source in sources]
    for number, code in enumerate(lines):
        for start in range(len(code) - COPY_LINES + 1):
            window = tuple(text for _, text in code[start : start + COPY_LINES])
            if sum(map(len, window)) >= COPY_CHARACTERS:
                windows[window].append((number, start))
    pairs = {
        (one, other)
        for places in windows.values()
        for one, other in combinations(places, 2)
        if one[0] != other[0]
    }
    found = []
    for (one, start), (other, begin) in sorted(pairs):
        if ((one, start - 1), (other, begin - 1)) in pairs:
            continue  # the same run, one line later
        size = 1
        while ((one, start + size), (other, begin + size)) in pairs:
            size += 1
        first, second = (
            f"{sources[number].name}:{lines[number][place][0]}"
            for number, place in ((one, start), (other, begin))
        )
        found.append(f"{size + COPY_LINES - 1:3d} lines {first} = {second}")
    return str(len(found)), sorted(found, reverse=True)


def _copyable(source: Source) -> list[tuple[int, str]]:
    """Return the lines of code without imports and ``__all__``."""
    skipped: set[int] = set()
    for node in ast.walk(source.tree):
        names = [target.id for target in getattr(node, "targets", []) if hasattr(target, "id")]
        if isinstance(node, ast.Import | ast.ImportFrom) or "__all__" in names:
            assert isinstance(node, ast.stmt)
            skipped.update(range(node.lineno, (node.end_lineno or 0) + 1))
    return [(number, text) for number, text in source.code if number not in skipped]


def shared_requests(sources: Sequence[Source]) -> Found:
    """Count the request codes that several packages name, servers left out."""
    users = defaultdict(set)
    for source in sources:
        parts = source.name.split(".")
        package = parts[1] if len(parts) > 1 else ""
        if package in SERVERS or not package:
            continue
        for node in ast.walk(source.tree):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "RequestCode"
            ):
                users[node.attr].add(package)
    return _twice({code: sorted(packages) for code, packages in users.items()})


# ---- imports ------------------------------------------------------------------------------------


def _imports(sources: Sequence[Source], *, late: bool) -> dict[str, set[str]]:
    """Return the sources that each source imports, without imports for type checking."""
    names = {source.name for source in sources}
    return {source.name: _imported(source, names, late=late) for source in sources}


def _imported(source: Source, names: set[str], *, late: bool) -> set[str]:
    found: set[str] = set()
    waiting: list[ast.AST] = [source.tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not late:
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in names else node.module)
    return (found & names) - {source.name}


def _strongly_connected(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """Return the groups of nodes that reach each other (Tarjan's algorithm, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[set[str]] = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            following = next(rest, None)
            if following is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    place = stack.index(node)
                    groups.append(set(stack[place:]))
                    del stack[place:]
            elif following not in index:
                index[following] = low[following] = len(index)
                stack.append(following)
                work.append((following, iter(sorted(graph[following]))))
            elif following in stack:
                low[node] = min(low[node], index[following])
    return groups


def closure(sources: Sequence[Source], starts: Sequence[str]) -> set[str]:
    """Return the modules that are imported when the given ones are, late imports left out."""
    graph = _imports(sources, late=False)
    packages = {source.name for source in sources if source.is_package}
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen - packages


def walks(sources: Sequence[Source]) -> Iterator[str]:
    """Yield the size of the import closure of each walk and of its starting points."""
    for title, starts in WALKS.items():
        names = []
        for package, wanted in starts:
            defining = [
                source.name
                for source in sources
                if f".{package}." in source.name
                for node in source.tree.body
                if isinstance(node, ast.ClassDef) and node.name == wanted
            ]
            if len(defining) != 1:
                yield f"{title}: class {wanted} of {package} is defined {len(defining)} times"
                continue
            names += defining
        whole = closure(sources, names)
        yield f"{title}: {len(whole)} modules"
        for name in names:
            part = closure(sources, [name])
            package = ".".join(name.split(".")[:2])
            inside = sum(each.startswith(f"{package}.") for each in part)
            yield f"  {name}: {len(part)} modules, {inside} of them in {package}"


@dataclass(frozen=True)
class Count:
    """A count, its key for ``--list``, and its title."""

    key: str
    title: str
    of: Callable[[Sequence[Source]], Found]


COUNTS: Final = [
    Count("modules", "modules", modules),
    Count("lines", "median lines of code of a module", median_lines),
    Count("docstrings", "indirect docstrings", indirect_docstrings),
    Count("classes", "indirect docstrings of classes", indirect_classes),
    Count("words", "indirect words per 10 000 of docstrings", indirect_words),
    Count("gerunds", "modules named by a gerund", gerund_modules),
    Count("same-classes", "class names used twice", class_names_twice),
    Count("same-modules", "module names used twice", module_names_twice),
    Count("cycles", "import cycles", import_cycles),
    Count("error-texts", "decisions by error text", decisions_by_text),
    Count("outside", "attributes set from outside", attributes_set_outside),
    Count("copies", f"copied runs of {COPY_LINES} lines and more", copies),
    Count("requests", "requests that several packages build", shared_requests),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts, one list of places, or the walks."""
    parser = argparse.ArgumentParser(prog="python -m tools.house")
    parser.add_argument("directory", nargs="?", type=Path, default=Path("src"))
    parser.add_argument(
        "--list", choices=[count.key for count in COUNTS], help="print the places of one count"
    )
    parser.add_argument("--walk", action="store_true", help="print import closures")
    options = parser.parse_args(arguments)
    sources = read_sources(options.directory)
    if not sources:
        parser.error(f"no Python file below {options.directory}")
    if options.walk:
        print(*walks(sources), sep="\n")
        return 0
    for count in COUNTS:
        value, places = count.of(sources)
        if options.list is None:
            print(f"{count.key:14} {count.title:42} {value}")
        elif options.list == count.key:
            print(*places, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
