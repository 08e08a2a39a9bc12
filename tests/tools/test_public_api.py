"""The public API is the one that the snapshot shows."""

import click
import pytest

from tools.public_api import SNAPSHOT, main, public_api


def test_the_public_api_is_that_of_the_snapshot() -> None:
    shown, found = SNAPSHOT.read_text().splitlines(), public_api().splitlines()
    removed = [line for line in shown if line not in found]
    added = [line for line in found if line not in shown]
    assert (removed, added) == ([], []), "if the change is intended, run `make api`"
    assert shown == found, "if the change is intended, run `make api`"


def test_the_text_has_signatures_options_keys_and_exit_codes() -> None:
    text = public_api()
    for line in (
        "class NoRoute(ClientError, OrbitError, Exception)",
        "  NoRoute.retriable: ClassVar[bool] = True",
        "  Store.close(self) -> None",
        "  SendStatus.SEND_OK = 0",
        "orbitmq topic create",
        "  --namespace text env=ORBITMQ_NAMESPACE",
        "  -o/--output table|json default=table",
        "  <topic> text required",
        "mqshutdown",
        "maxOffset",
        "6 NOBODY_ANSWERS",
        "startingOffsets",
    ):
        assert f"\n{line}\n" in text, line
    assert "0x" not in text, "no addresses of objects"


def test_a_changed_option_changes_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    from orbitmq.cli.up import up

    before = public_api()
    (port,) = [each for each in up.params if each.name == "port"]
    assert isinstance(port, click.Option)
    monkeypatch.setattr(port, "default", 9877)
    changed = set(public_api().splitlines()) ^ set(before.splitlines())
    assert changed == {
        "  --port integer range default=9876",
        "  --port integer range default=9877",
    }


def test_the_command_prints_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out == public_api()
