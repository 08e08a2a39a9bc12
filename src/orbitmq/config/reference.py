"""Generator of the reference page that lists every setting; ``make docs`` runs it.

    python -m orbitmq.config.reference > docs/settings.md

The page comes from the declarations of the settings: key, default, type, and meaning.
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
    ("Accepted connections", "In `broker.conf` and `namesrv.conf`.", ServerSettings),
    ("Connections opened by a broker", "In `broker.conf`.", ConnectionSettings),
    (
        "TLS",
        "In `broker.conf` and `namesrv.conf`, or in the file of `tls.config.file`. Files are PEM.",
        TlsSettings,
    ),
    ("Nameserver", "In `namesrv.conf`.", NameserverConfig),
)

HEAD: Final = """\
# Settings

`make docs` generates this page from the declarations in `src/orbitmq/config`; do not edit it.

OrbitMQ accepts every key of RocketMQ 4.9.7, with the same default. The last column describes the
effect in OrbitMQ:

- a plain sentence: the effect of the setting;
- **no effect**: the setting is accepted and shown, and ignoring it is harmless, for the given
  reason;
- **warned of**: the setting has no effect; any value except the default logs a warning at start,
  with the reason;
- **refused**: the program does not start with any value except the default (or as the text says),
  because ignoring the setting would lose messages or change their meaning.

The program does not start with invalid settings. An invalid value (`flushDiskType=SYNC`,
`aclEnable=yes`) or a misspelt key (`flushDiskTyp`) ends the start with code 2 and a suggestion,
where Java uses its defaults. A key that only RocketMQ 5.x has logs a warning in a file, and is
refused with `--set`. Any other unknown key is refused. In the files of `mqbroker` and `mqnamesrv`
it only logs a warning, because RocketMQ's plug-ins read their own keys from the same file.

A request can change *live* settings (`orbitmq broker config --set`, mqadmin's
`updateBrokerConfig`). *At start* means that a request changes the shown value, but only the file
and a new start change the effect. At a broker, changes by requests last until its process ends; a
nameserver writes them to its file.
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
        parts.append("| Key | Default | Type | Live | Effect in OrbitMQ |\n")
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
