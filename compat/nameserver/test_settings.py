"""Settings: every key and default equals Java's, and properties are parsed alike."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from compat.nameserver.tools import JavaTools
from orbitmq.config import (
    BrokerConfig,
    NameserverConfig,
    format_properties,
    parse_properties,
)
from orbitmq.errors import MalformedProperties

# The directories of the other process, and values set at its start.
OF_THE_PROCESS = {"rocketmqHome", "kvConfigPath", "configStorePath", "storePathRootDir"}
OF_THE_PROCESS |= {"namesrvAddr"}
OF_THE_START = {"listenPort"}
OUR_OWN = {
    "broker": {
        *("timerMaxDelaySec", "aclStrict", "deduplicationWindowMs", "deduplicationMaxIds"),
        "deduplicationSnapshotInterval",
        *("lostMemberGraceMillis", "startMemberGraceMillis"),
    },
    "nameserver": {"aclEnable"},
}
TEXTS = 3000
PIECES = ["a", "b", "=", ":", " ", "\t", "\f", "\\", "\\\\", "\n", "\r\n", "\r", "#", "!", "\xe9"]
PIECES += ["\\u00e9", "\\uD83D\\uDE00", "\\n", "\\t", "\\ ", "\\=", "key=value\n", "\\u12"]


@pytest.mark.parametrize("who", ["broker", "nameserver"])
def test_every_setting_has_javas_default(
    who: str, java_tools_peer: JavaTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    ours = (BrokerConfig() if who == "broker" else NameserverConfig()).as_properties()
    assert OUR_OWN[who] <= ours.keys()
    ours = {key: value for key, value in ours.items() if key not in OUR_OWN[who]}
    theirs = java_tools_peer.do("defaults")[who]
    assert ours.keys() - OF_THE_PROCESS == theirs.keys() - OF_THE_PROCESS
    left_out = OF_THE_PROCESS | OF_THE_START
    assert {k: v for k, v in ours.items() if k not in left_out} == {
        k: v for k, v in theirs.items() if k not in left_out
    }


def test_properties_are_parsed_alike(java_tools_peer: JavaTools) -> None:
    chooser = random.Random(20497)
    texts = ["".join(chooser.choices(PIECES, k=chooser.randint(1, 14))) for _ in range(TEXTS)]
    refused = 0
    for text, theirs in zip(texts, java_tools_peer.do("properties", texts=texts), strict=True):
        try:
            ours = parse_properties(text)
        except MalformedProperties:
            refused += 1
            assert theirs is None, text
        else:
            # Half a surrogate pair is no character: Java prints it as "?".
            printed = {k.replace("\ufffd", "?"): v.replace("\ufffd", "?") for k, v in ours.items()}
            assert printed == theirs, text
    assert 0 < refused < TEXTS // 2


def test_java_reads_the_properties_we_write(java_tools_peer: JavaTools, tmp_path: Path) -> None:
    chooser = random.Random(20498)
    letters = "ab =:#!\\\t\n\r\f\xe9€😀"

    def word() -> str:
        return "".join(chooser.choices(letters, k=chooser.randint(0, 6)))

    tables = [{word(): word() for _ in range(5)} for _ in range(300)]
    texts = [format_properties(table) for table in tables]
    assert java_tools_peer.do("properties", texts=texts) == tables
