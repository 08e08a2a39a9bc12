"""Settings of every client, and the hooks of every request."""

from __future__ import annotations

import re

import pytest

from orbitmq.client.settings import ClientSettings
from orbitmq.errors import ConfigError
from orbitmq.remoting.hooks import mark_stream, prepare, signing


def test_nameserver_addresses_are_accepted_in_all_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:9876")
    assert ClientSettings.of().nameservers == ("env:9876",)
    assert ClientSettings.of("a:1; b:2;").nameservers == ("a:1", "b:2")
    assert ClientSettings.of(["a:1", "a:1", "[::1]:2"]).nameservers == ("a:1", "[::1]:2")
    assert ClientSettings.of("http://host:80").nameservers == ("host:80",)
    cloud = ClientSettings.of("http://MQ_INST_123_abc.mq.example.com:80")
    assert cloud.namespace == "MQ_INST_123_abc"
    assert cloud.nameservers == ("MQ_INST_123_abc.mq.example.com:80",)
    again = ClientSettings.of(cloud, namespace="other")
    assert (again.namespace, again.nameservers) == ("other", cloud.nameservers)


def test_invalid_client_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ConfigError, match="set NAMESRV_ADDR"):
        ClientSettings.of()
    with pytest.raises(ConfigError, match="host:port"):
        ClientSettings.of("localhost")
    with pytest.raises(ConfigError, match="belong together"):
        ClientSettings.of("a:1", access_key="k")
    with pytest.raises(ConfigError, match="no such setting"):
        ClientSettings.of("a:1", nonsense=1)
    with pytest.raises(ConfigError, match="positive"):
        ClientSettings.of("a:1", timeout_ms=0)


def test_secrets_are_not_in_the_repr() -> None:
    settings = ClientSettings.of("a:1", access_key="me", secret_key="s3cret", security_token="tok")
    assert "s3cret" not in repr(settings)
    assert "tok" not in repr(settings).replace("security_token", "")


def test_client_ids_are_generated_unless_a_name_is_given() -> None:
    settings = ClientSettings.of("a:1", client_ip="10.0.0.5")
    assert re.fullmatch(r"10\.0\.0\.5@\d+#\d+", settings.make_client_id())
    assert settings.make_client_id() != settings.make_client_id()
    named = ClientSettings.of("a:1", client_ip="10.0.0.5", instance_name="DEFAULT", unit_name="u")
    assert named.make_client_id() == "10.0.0.5@DEFAULT@u"
    assert named.make_client_id(stream=True) == "10.0.0.5@DEFAULT@u@STREAM"


def test_signatures_equal_javas() -> None:
    ext = {"Zed": "z", "a": "g1", "queueId": "3", "topic": "TopicTest"}
    signed = prepare([signing("AccessKey1", "SecretKey1")], 310, ext, b"hello")
    assert signed is not None
    assert signed["Signature"] == "0nFGEdTR3ObZQ8XDJsFx3Kf4t+s="
    assert "AccessKey" not in ext
    token = prepare([signing("AccessKey1", "SecretKey1", "tok")], 34, None, b"{}")
    assert token == {
        "AccessKey": "AccessKey1",
        "SecurityToken": "tok",
        "Signature": "Andl4uxFYv6DtYVapXcyObcaODI=",
    }


def test_the_field_of_pull_clients_is_signed() -> None:
    settings = ClientSettings.of("a:1", access_key="k", secret_key="s")
    assert settings.make_hooks(stream=True)[0] is mark_stream
    with_mark = prepare(settings.make_hooks(stream=True), 11, {"topic": "T"}, None)
    without = prepare(settings.make_hooks(), 11, {"topic": "T"}, None)
    assert with_mark is not None
    assert without is not None
    assert with_mark["ReqT"] == "0"
    assert with_mark["Signature"] != without["Signature"]
    assert prepare((), 11, None, None) is None
