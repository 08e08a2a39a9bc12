"""Account files changed by requests keep comments and layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.acl.editor import AccountEditor, dumped, rewritten
from orbitmq.acl.files import AccountFiles
from orbitmq.errors import ConfigError

TEXT = """\
# Accounts of the shop; ask Anna before you change them.
globalWhiteRemoteAddresses:
  - 10.10.103.*   # the office
  # the lab has moved
accounts:
  # The manager may do everything.
  - accessKey: manager1
    secretKey: s3cret-s3cret
    admin: true

  # Sends orders only.
  - accessKey: shopkeeper
    secretKey: '012345678'   # rotated in May
    # no prices
    topicPerms:
      - orders=PUB
  # Nobody knows who this is.
  - {accessKey: stranger, secretKey: stranger1}
# The end.
remark: kept
"""


def loaded(text: str) -> Any:
    return yaml.load(text, Loader=yaml.BaseLoader)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(TEXT)
    return tmp_path


def comments(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


def test_comments_are_kept_when_accounts_and_addresses_change(home: Path) -> None:
    path = home / "conf" / "plain_acl.yml"
    editor = AccountEditor(AccountFiles(home), lambda: 1_700_000_000_000)
    editor.put({"accessKey": "shopkeeper", "secretKey": "012345678", "topicPerms": ["orders=SUB"]})
    editor.put({"accessKey": "newcomer", "secretKey": "newcomer1"})
    editor.set_white(["10.1.1.1"], None)
    assert editor.delete("stranger")
    text = path.read_text()
    assert sorted(comments(text)) == sorted(comments(TEXT))
    assert "rotated in May" not in text, "the line has changed"
    content = loaded(text)
    assert content["remark"] == "kept"
    assert content["globalWhiteRemoteAddresses"] == ["10.1.1.1"]
    assert [one["accessKey"] for one in content["accounts"]] == [
        "manager1", "shopkeeper", "newcomer",
    ]  # fmt: skip
    assert content["accounts"][1] == {
        "accessKey": "shopkeeper", "secretKey": "012345678", "topicPerms": ["orders=SUB"],
    }  # fmt: skip
    assert text.index("Sends orders only") < text.index("shopkeeper")
    assert content["dataVersion"][0]["counter"] == "4"


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "accounts:\n", "accounts: []", "# x"])
def test_a_first_account_is_added_to_any_empty_file(text: str) -> None:
    content = {"accounts": [{"accessKey": "newcomer", "secretKey": "newcomer1"}]}
    after = rewritten(text, content)
    assert after is not None
    assert loaded(after) == content
    assert comments(after) == comments(text)


def test_a_layout_not_written_line_by_line_is_left_to_the_caller() -> None:
    after = {"accounts": [{"accessKey": "newcomer", "secretKey": "newcomer1"}]}
    assert rewritten("{accounts: [{accessKey: a, secretKey: b}]}", after) is None


names = st.text("abc'\": #-0", min_size=1, max_size=6)
entries = st.dictionaries(names, names | st.lists(names, max_size=2), min_size=1, max_size=3)


@given(st.lists(entries, max_size=4), st.lists(entries, max_size=4), st.sets(st.integers(0, 3)))
def test_the_rewritten_text_always_has_the_intended_content(
    before: list[Any], added: list[Any], gone: set[int]
) -> None:
    text = dumped({"white": ["1"], "accounts": before, "more": "m"}).replace("\n", "\n# note\n")
    after = [one for i, one in enumerate(before) if i not in gone] + added
    content = {"white": ["2"], "accounts": after, "more": "m", "dataVersion": [{"counter": "1"}]}
    result = rewritten(text, content)
    assert result is None or loaded(result) == loaded(dumped(content))


@pytest.mark.parametrize(
    "line", ["secretKey: 'hush-hush-hush", "secretKey: @hush-hush-hush", "- {secretKey: hush-hush"]
)
def test_an_error_names_line_and_column_but_no_secret(tmp_path: Path, line: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(f"accounts:\n- accessKey: k\n  {line}\n")
    with pytest.raises(ConfigError) as caught:
        AccountFiles(tmp_path)
    assert "line " in str(caught.value)
    assert "column " in str(caught.value)
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "a traceback would show what YAML says"
