"""Changes of words pass `tools.only_words`; any other change is found."""

import subprocess
from pathlib import Path

import pytest

from tools.only_words import main, python_difference, rust_difference

PYTHON = '''"""A module."""

import logging

_log = logging.getLogger(__name__)
COMMANDS = {"up": "Run it"}
ENTRY_HELP = "all " + "codes"


class Thing:
    """A thing."""

    size: int = live(3, "How large.")
    """Its size."""

    def grow(self, by: int) -> int:
        """Grow."""
        # slowly
        _log.warning("grew %s by %d %%", self, by)
        self.log.log(logging.INFO, f"by {by} now")
        option("--by", help="How much.", metavar="N")
        return self.size + by


def nothing() -> None:
    """Do nothing."""
'''


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""A module."""', '"""Another text."""'),
        ('"""A module."""\n', ""),
        ('    """Its size."""\n', ""),
        ("# slowly", "# quickly\n"),
        ('"How large."', '"Size in bytes."'),
        ("grew %s by %d %%", "%s is larger by %d"),
        ("by {by} now", "grown by {by}"),
        ('"How much."', '"Number of " "bytes."'),
        ('{"up": "Run it"}', '{"up": "Start a server"}'),
        ('"all " + "codes"', '"exit " + "codes"'),
        ('    """Do nothing."""', "    ..."),
    ],
)
def test_words_may_change(old: str, new: str) -> None:
    assert old in PYTHON
    assert python_difference(PYTHON, PYTHON.replace(old, new)) is None


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("self.size + by", "self.size - by", 22),
        ("grew %s by %d", "grew %s by %s", 19),
        ("grew %s by %d", "grew %s", 19),
        ("self, by)", "by, self)", 19),
        ("_log.warning", "_log.error", 19),
        ("{by} now", "{self} now", 20),
        ('metavar="N"', 'metavar="M"', 21),
        ('"--by"', '"--for"', 21),
        ("live(3,", "live(4,", 13),
        ('{"up": "Run it"}', '{"down": "Run it"}', 6),
        ("class Thing", "class Other", 10),
        ("        return self.size + by\n", "", 16),
        ("import logging", "import logging, sys", 3),
    ],
)
def test_anything_else_is_found_with_its_line(old: str, new: str, line: int) -> None:
    assert old in PYTHON
    found = python_difference(PYTHON, PYTHON.replace(old, new, 1))
    assert found is not None
    assert found.startswith(f"line {line}: ")


def test_a_plain_string_argument_is_no_word() -> None:
    assert python_difference('f("a", x="b")', 'f("c", x="b")') is not None
    assert python_difference('raise E("a")', 'raise E("b")') is not None


def test_a_value_that_is_put_into_a_help_text_is_no_word() -> None:
    assert python_difference('o(help="a %s" % "x")', 'o(help="b %s" % "x")') is None
    assert python_difference('o(help="a %s" % "x")', 'o(help="a %s" % "y")') is not None


RUST = r"""//! A crate.
/// Adds. /* not a block
fn add<'a>(a: &'a str, b: char) -> String { // adds
    /* a /* nested */ block */
    let raw = r#"// no "comment" */"#;
    let text = "a \" // b";
    if b == '"' || b == '\'' || b == '/' { return text.into(); }
    format!("{a}{raw}")
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("//! A crate.\n", ""),
        ("/// Adds. /* not a block", "/// Joins two texts."),
        ("// adds", ""),
        ("/* a /* nested */ block */", "// one line"),
        ("fn add<'a>(a", "fn add<'a>(\n    a"),
    ],
)
def test_comments_and_layout_of_rust_may_change(old: str, new: str) -> None:
    assert old in RUST
    assert rust_difference(RUST, RUST.replace(old, new)) is None


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('// no "comment"', '// a "comment"', 5),
        ("// b", "// c", 6),
        ("b == '/'", "b == '*'", 7),
        ("{a}{raw}", "{raw}{a}", 8),
        ("<'a>", "<'b>", 3),
        ("-> String", "-> Text", 3),
    ],
)
def test_tokens_of_rust_may_not_change(old: str, new: str, line: int) -> None:
    assert old in RUST
    found = rust_difference(RUST, RUST.replace(old, new, 1))
    assert found is not None
    assert found.startswith(f"line {line}: ")


def test_rust_that_was_cut_or_grew_is_found() -> None:
    assert rust_difference("fn a() {} fn b() {}", "fn a() {}") == "end of file: removed `fn`"
    assert rust_difference("fn a() {}", "fn a() {}\nfn b() {}") == "line 2: added `fn`"


def test_two_revisions_and_a_directory_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def git(*words: str) -> None:
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *identity, *words], check=True, capture_output=True)

    def commit(name: str) -> None:
        git("add", ".")
        git("commit", "-m", name, "--no-gpg-sign")
        git("tag", name)

    git("init")
    (tmp_path / "src").mkdir()
    module, gone = tmp_path / "src" / "a.py", tmp_path / "gone.py"
    module.write_text('"""One."""\nx = 1\n')
    gone.write_text("")
    (tmp_path / "notes.txt").write_text("one")
    commit("one")
    module.write_text('"""Two."""\nx = 1  # two\n')
    (tmp_path / "notes.txt").write_text("two")
    commit("two")
    assert main(["one", "two"]) == 0
    assert capsys.readouterr().err == "2 files, 1 changed, 0 in more than words\n"
    module.write_text('"""Two."""\nx = 2\n')
    gone.unlink()
    assert main(["two", "."]) == 1
    assert capsys.readouterr().out == "gone.py: removed\nsrc/a.py: line 2: `1` became `2`\n"
    assert main(["two", ".", "src"]) == 1
    assert capsys.readouterr().out == "src/a.py: line 2: `1` became `2`\n"
    with pytest.raises(SystemExit):
        main(["one", "two", "elsewhere"])
