"""Notes of exactly-once senders in the nameservers' key-value table.

Every nameserver has a table of its own. A note is written to all of them, and one answer is enough
to read it. Apache's nameserver also stores such values.
"""

from __future__ import annotations

from collections.abc import Sequence

from orbitmq.errors import NoRoute, OrbitError
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.names import SINK_BROKERS
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.rpc.namespace import wrap

__all__ = ["NameserverTable"]


class NameserverTable:
    """Reads and writes the key-value tables of a cluster's nameservers."""

    def __init__(
        self,
        network: BlockingNetwork,
        nameservers: Sequence[str],
        namespace: str | None = None,
        timeout_ms: float = 5000,
    ) -> None:
        self._network = network
        self.nameservers = nameservers
        self._namespace = namespace
        self._timeout_ms = timeout_ms

    def key(self, sender: str, topic: str) -> str:
        """Return the key of a sender's note on a topic.

        The key contains the topic's whole name, because nameservers check the right to send to it.
        """
        return f"{sender}@{wrap(self._namespace, topic)}"

    def read(self, key: str) -> dict[str, str]:
        """Return the note of each nameserver that answers, an empty text for a missing note."""
        found = {}
        for address in self.nameservers:
            code, value = self._ask(address, RequestCode.GET_KV_CONFIG, key)
            if code == ResponseCode.SUCCESS and value:
                found[address] = value
            elif code == ResponseCode.QUERY_NOT_FOUND:
                found[address] = ""
        return found

    def write(self, nameservers: Sequence[str], key: str, value: str) -> bool:
        """Store a note at nameservers; return True if at least one has stored it."""
        codes = [self._ask(each, RequestCode.PUT_KV_CONFIG, key, value)[0] for each in nameservers]
        return ResponseCode.SUCCESS in codes

    def delete(self, key: str) -> None:
        """Delete a note at all nameservers that answer."""
        for address in self.nameservers:
            self._ask(address, RequestCode.DELETE_KV_CONFIG, key)

    def unreachable(self, what: str) -> NoRoute:
        """Return the error for "no nameserver `what`", such as "has noted which brokers …"."""
        return NoRoute(
            f"deduplicate: no nameserver of {', '.join(self.nameservers)} {what}. Check that one "
            "runs there, and that the account may change its table if it asks for accounts.",
            cause="no_nameserver",
        )

    def _ask(
        self, address: str, code: int, key: str, value: str | None = None
    ) -> tuple[int | None, str | None]:
        ext = {"namespace": SINK_BROKERS, "key": key}
        if value is not None:
            ext["value"] = value
        try:
            answer = self._network.invoke(address, code, ext=ext, timeout_ms=self._timeout_ms)
        except OrbitError:
            return None, None
        return answer.code, answer.get_ext("value")
