"""The page of the reference that lists every setting; ``make docs`` writes it.

    python -m orbitmq.config.reference > docs/settings.md

It is made of the settings' own declarations: key, default, type, and what the setting does here.
"""

from __future__ import annotations

from typing import Final

from orbitmq.config.broker import BrokerConfig
from orbitmq.config.nameserver import NameserverConfig
from orbitmq.config.network import ConnectionSettings, ServerSettings
from orbitmq.config.settings import Setting, Settings, Use
from orbitmq.config.store import StoreSettings
from orbitmq.config.tls import TlsSettings

__all__ = ["page"]

SECTIONS: Final[tuple[tuple[str, str, type[Settings]], ...]] = (
    ("Broker", "In `broker.conf`.", BrokerConfig),
    ("Message store", "In `broker.conf`.", StoreSettings),
    ("Connections that are accepted", "In `broker.conf` and `namesrv.conf`.", ServerSettings),
    ("Connections that a broker opens", "In `broker.conf`.", ConnectionSettings),
    (
        "TLS",
        "In `broker.conf` and `namesrv.conf`, or in the file of `tls.config.file`. Files are PEM.",
        TlsSettings,
    ),
    ("Nameserver", "In `namesrv.conf`.", NameserverConfig),
)

HEAD: Final = """\
# Settings

`make docs` makes this page of the declarations in `src/orbitmq/config`; do not edit it.

Every key of RocketMQ 4.9.7 is known, with its default. The last column says what it does here:

- a plain sentence: that is what it does;
- **no effect**: it is accepted and shown, and nobody notices, for the reason given;
- **warned of**: it has no effect; any value but the default is a warning at start, with the reason;
- **refused**: nothing starts with any value but the default (or as the text says), because to
  ignore it would lose messages or change what they mean.

Nothing starts with what is not understood: a value that is none (`flushDiskType=SYNC`,
`aclEnable=yes`) and a key with a slip in it (`flushDiskTyp`) end the start with code 2 and a
suggestion, where Java runs with its defaults. A key that RocketMQ 5.x has and OrbitMQ has not is
warned of in a file and refused with `--set`. A key that is like none of RocketMQ's is refused, too,
but in the files of `mqbroker` and `mqnamesrv`: there it is warned of, for RocketMQ's plug-ins read
their own keys from the same file.

*Live* settings may be changed by a request (`orbitmq broker config --set`, mqadmin's
`updateBrokerConfig`). *At start* means that a request changes what is shown, but only the file and
a new start change what is done. What a request changes at a broker lasts as long as its process; a
nameserver writes it to its file.
"""

_MARKS: Final = {
    Use.WORKS: "",
    Use.IDLE: "**No effect**: ",
    Use.WARNED: "**Warned of**: ",
    Use.REFUSED: "**Refused**: ",
}


def page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD]
    for title, where, kind in SECTIONS:
        own = [one for one in kind.known().values() if one.name in kind.__annotations__]
        parts.append(f"\n## {title}\n\n{where}\n\n")
        parts.append("| Key | Default | Type | Live | What it does here |\n")
        parts.append("| --- | --- | --- | --- | --- |\n")
        parts += [_row(setting) for setting in own]
    return "".join(parts)


def _row(setting: Setting) -> str:
    meaning = setting.meaning
    text = _MARKS[meaning.use] + meaning.text
    cells = (f"`{setting.key}`", _default(setting), _type(setting), _live(setting), text)
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |\n"


def _default(setting: Setting) -> str:
    if setting.otherwise is not None:
        return setting.otherwise
    if setting.default is None or setting.default == "":
        return "none"
    value = setting.default
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _type(setting: Setting) -> str:
    if setting.choices:
        return " or ".join(f"`{choice}`" for choice in setting.choices)
    if setting.kind is bool:
        return "boolean"
    if setting.kind is int:
        return "number" if setting.bits == 32 else "number, 64 bits"
    return "text"


def _live(setting: Setting) -> str:
    if setting.meaning.use is not Use.WORKS:
        return "-"
    if not setting.remote:
        return "no"
    return "at start" if setting.read_at_start else "yes"


if __name__ == "__main__":
    print(page(), end="")
