"""Generator of ``docs/rights.md``: ``python -m orbitmq.acl.page > docs/rights.md``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from orbitmq.acl.rules import BROKER_RULES, NAMESERVER_RULES, UNSERVED_CODES, Rule
from orbitmq.protocol.codes import RequestCode

__all__ = ["page"]

HEAD = """\
# Requests and rights

Made from `orbitmq.acl.rules`, which is what requests are checked by
(`python -m orbitmq.acl.page > docs/rights.md`).

Every request must be signed by an account once `aclEnable=true`, unless it comes from a white
address. This page says what the account needs besides. *Any account* means nothing besides. The
rights are those of `plain_acl.yml`: `PUB` and `SUB` on a topic (`topicPerms`), `SUB` on a
consumer group (`groupPerms`), or `admin: true`.

With `aclStrict=true`:

- a default (`defaultTopicPerm`) covers topics of users. The broker's own (`SCHEDULE_TOPIC_XXXX`,
  `RMQ_SYS_*`, `rmq_sys_*`, `OFFSET_MOVED_EVENT`, `<cluster>_REPLY_TOPIC` and the like) must be
  named in `topicPerms`. Everybody may write to the trace topic.
- a retry topic and the dead letters of a group belong to the group: `SUB` on it. `topicPerms` may
  name `%DLQ%group`, too.
- a message that is pointed to by its place counts with the topic it belongs to, also while it
  waits to be due. A place where no message begins is for administrators.
- a producer is asked about a half message (39) only if its account may write to the topic and has
  sent it, or may also read the topic.
"""


def page() -> str:
    """Return the page as Markdown."""
    parts = [
        HEAD,
        "## Broker\n\n" + _table(BROKER_RULES),
        "## Nameserver\n\n"
        "4.9.7 has no accounts here; these hold with `aclEnable=true` in `namesrv.conf`, and with "
        "`orbitmq up --set aclEnable=true`.\n\n" + _table(NAMESERVER_RULES, with_4_9_7=False),
        "## Not served\n\n" + _table(UNSERVED_CODES, with_4_9_7=False),
    ]
    return "\n".join(parts)


def _table(rules: Mapping[RequestCode, Rule], *, with_4_9_7: bool = True) -> str:
    columns = ["Code", "Name", "Needs"]
    if with_4_9_7:
        columns[2:] = ["With `aclStrict=true`", "As in 4.9.7"]
    lines = [_line([*columns, "Why"]), _line(["---"] * (len(columns) + 1))]
    for code, rule in sorted(rules.items()):
        needs = [rule.strict.text]
        if with_4_9_7:
            needs.append(rule.as_4_9_7.text if rule.as_4_9_7 is not rule.strict else "the same")
        lines.append(_line([str(int(code)), f"`{code.name}`", *needs, rule.why]))
    return "".join(lines)


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


if __name__ == "__main__":
    print(page(), end="")
