"""The nameservers of a broker whose settings name none, but an address server that does."""

from __future__ import annotations

import asyncio
import logging

from orbitmq.config import BrokerConfig
from orbitmq.errors import NoRoute
from orbitmq.remoting.address_server import look_up

__all__ = ["NameserverLookUp"]

_log = logging.getLogger(__name__)

DEFAULT_DOMAIN = "jmenv.tbsite.net"
DEFAULT_SUBGROUP = "nsaddr"
LOOK_AGAIN_S = 120.0
LOOK_AGAIN_SOON_S = 10.0
ADVICE = "Check rmqAddressServerDomain, or set namesrvAddr"


class NameserverLookUp:
    """Asks the address server now and then; `config.nameservers` are then those it has named."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    @property
    def next_s(self) -> float:
        """Seconds until the next question; few, as long as there is no nameserver."""
        return LOOK_AGAIN_S if self._config.found_nameservers else LOOK_AGAIN_SOON_S

    async def ask(self) -> bool:
        """Ask the address server; True when its list has changed.

        When it does not answer, the list of before stays in use.
        """
        config = self._config
        domain = config.rmq_address_server_domain or DEFAULT_DOMAIN
        subgroup = config.rmq_address_server_sub_group or DEFAULT_SUBGROUP
        try:
            found = await asyncio.to_thread(look_up, domain, subgroup, advice=ADVICE)
        except NoRoute as error:
            known = ";".join(config.found_nameservers)
            kept = f"going on with {known}" if known else "not registered yet"
            _log.warning("%s; %s, asking again in %.0f s", error, kept, self.next_s)
            return False
        changed = set(found) != set(config.found_nameservers)
        if changed:
            _log.info("name servers according to %s: %s", domain, ";".join(found))
        config.found_nameservers = list(found)
        return changed
