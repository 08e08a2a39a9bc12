"""Every count of `tools.house`, on a tiny package where the right number is known."""

from pathlib import Path

import pytest

from tools import house
from tools.house import COUNTS, closure, main, read_sources

RUN = """
        total = 0
        for number in range(1_000_000):
            if number % 17 == 0 and number % 19 == 0:
                total += number * number
            elif number % 23 == 0:
                total -= number
        return total
"""

FILES = {
    "shop/__init__.py": '"""A shop."""\nfrom shop.client import Client\n',
    "shop/client/__init__.py": '"""What others import."""\n',
    "shop/client/sending.py": f'''"""Sends orders; nobody waits."""

# a comment
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from shop.client import names

if TYPE_CHECKING:
    from shop.admin.offsets import Table

__all__ = ["Client"]


class Client:
    """Whoever sends.

    Many words follow here, and they are told so many things.
    """

    def __init__(self, part: object) -> None:
        self.part = part
        self.part.on_lost = self.count
        self.part.size, self.started = 3, True
        part.size = 4

    def count(self) -> int:
        """Count."""{RUN}

    def send(self) -> None:
        from shop.admin import offsets

        try:
            self.part.invoke(RequestCode.SEND)
            self.part.invoke(RequestCode.ROUTE)
        except ValueError as error:
            if "limit" in str(error):
                raise
            if error.code == 7 or str(error):
                raise
            raise ValueError(reworded(str(error))) from error


def reworded(text: str) -> str:
    """Return a better text."""
    return "no" if text.startswith("none") else text


class Table:
    """How rows are kept."""
''',
    "shop/client/names.py": '"""Names."""\n\nSIZE = """not\na docstring"""\n',
    "shop/admin/__init__.py": "",
    "shop/admin/names.py": '"""Other names."""\n',
    "shop/admin/offsets.py": f'''"""Offsets."""

import shop.client.sending


class Table:
    """Rows."""

    def total(self) -> int:{RUN}

    def routes(self) -> None:
        self.invoke(RequestCode.ROUTE)
''',
    "shop/broker/__init__.py": "",
    "shop/broker/handler.py": '"""Handles."""\n\nCODES = [RequestCode.SEND]\n',
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


EXPECTED = {
    "modules": ("5", 5),
    "lines": ("2", 5),
    "docstrings": ("3 of 12 (25.0 %)", 3),
    "classes": ("2 of 3 (66.7 %)", 2),
    "gerunds": ("1", 1),
    "same-classes": ("1", 1),
    "same-modules": ("1", 1),
    "cycles": ("1", 1),
    "error-texts": ("2", 2),
    "outside": ("2", 2),
    "copies": ("1", 1),
    "requests": ("1", 1),
}
PLACES = {
    "gerunds": ["shop.client.sending"],
    "same-classes": ["Table: shop.admin.offsets, shop.client.sending"],
    "same-modules": ["names: shop.admin.names, shop.client.names"],
    "cycles": ["shop.admin.offsets ⇄ shop.client.sending"],
    "error-texts": [
        "shop.client.sending:47 'limit' in str(error)",
        "shop.client.sending:56 text.startswith('none')",
    ],
    "outside": [
        "shop.client.sending:25 self.part.on_lost",
        "shop.client.sending:26 self.part.size",
    ],
    "copies": ["  7 lines shop.admin.offsets:10 = shop.client.sending:31"],
    "requests": ["ROUTE: admin, client"],
}


@pytest.mark.parametrize("key", EXPECTED)
def test_the_count_of_the_sample_is_right(directory: Path, key: str) -> None:
    (count,) = [count for count in COUNTS if count.key == key]
    value, places = count.of(read_sources(directory))
    assert (value, len(places)) == EXPECTED[key]
    if key in PLACES:
        assert places == PLACES[key]


def test_indirect_words_are_counted_per_ten_thousand(directory: Path) -> None:
    value, places = house.indirect_words(read_sources(directory))
    words = [place.split(maxsplit=1)[1].lower() for place in places]
    assert sorted(words) == ["are told", "nobody", "so many", "whoever"]
    docstrings = [text for source in read_sources(directory) for _, text in source.docstrings]
    assert value == f"{40_000 / sum(len(text.split()) for text in docstrings):.1f}"


def test_every_count_is_tested() -> None:
    assert {count.key for count in COUNTS} == {*EXPECTED, "words"}


def test_lines_of_code_leave_out_blank_lines_comments_and_docstrings(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(
        '"""Doc.\n\nMore.\n"""\n\n# no\nx = [\n    1,  # one\n]\n\n"""of x"""\n'
    )
    (source,) = read_sources(tmp_path)
    assert source.code == [(7, "x = ["), (8, "1,  # one"), (9, "]")]


def test_a_closure_follows_imports_at_the_top_only(directory: Path) -> None:
    sources = read_sources(directory)
    assert closure(sources, ["shop.client.sending"]) == {
        "shop.client.sending",
        "shop.client.names",
    }
    assert closure(sources, ["shop.admin.offsets"]) == {
        "shop.admin.offsets",
        "shop.client.sending",
        "shop.client.names",
    }


def test_the_command_prints_counts_lists_and_walks(
    directory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main([str(directory)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [count.key for count in COUNTS]
    assert main([str(directory), "--list", "gerunds"]) == 0
    assert capsys.readouterr().out == "shop.client.sending\n"
    monkeypatch.setattr(
        house, "WALKS", {"an order": [("client", "Client"), ("admin", "Table"), ("admin", "No")]}
    )
    assert main([str(directory), "--walk"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "an order: class No of admin is defined 0 times",
        "an order: 3 modules",
        "  shop.client.sending: 2 modules, 2 of them in shop.client",
        "  shop.admin.offsets: 3 modules, 1 of them in shop.admin",
    ]


def test_the_walks_start_at_classes_that_exist() -> None:
    root = Path(__file__).parent.parent.parent
    lines = list(house.walks(read_sources(root / "src")))
    assert not [line for line in lines if "is defined" in line]
