"""Handlers of all nameserver requests. Unknown codes get no answer.

Java treats a missing field as null and continues; so do these handlers where that does no harm. A
registration without a name, an address, a cluster or an id is refused: Java would put null into its
tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orbitmq import persist
from orbitmq._native import Command, body_crc, dumps_lenient, loads_lenient
from orbitmq.config import (
    NameserverConfig,
    decode,
    format_properties,
    parse_properties,
    rewrite_properties,
)
from orbitmq.errors import HeaderFault, MalformedProperties
from orbitmq.nameserver.answers import (
    broker_json,
    from_this_machine,
    queue_json,
    seen_from,
    standard_json,
    topic_list,
)
from orbitmq.nameserver.kv import KvTable
from orbitmq.nameserver.registration import decode_registration
from orbitmq.nameserver.routes import Registration, Routes
from orbitmq.protocol.bodies import DataVersion
from orbitmq.protocol.codes import RequestCode, ResponseCode
from orbitmq.protocol.flags import TopicFlag, Version
from orbitmq.protocol.headers import Header, Long
from orbitmq.protocol.names import FAQ, ORDER_TOPIC_CONFIG
from orbitmq.remoting.connection import Connection
from orbitmq.remoting.router import Handler, Refused, Router, respond

__all__ = ["Handlers"]

_log = logging.getLogger(__name__)

CONFIG_PATHS = ("kvConfigPath", "configStorePath")


class BrokerHeader(Header):
    """Request 104."""

    broker_name: str = ""
    broker_addr: str = ""
    cluster_name: str = ""
    broker_id: Long | None = None


class RegisterHeader(Header):
    """Request 103."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Long
    ha_server_addr: str = ""
    compressed: bool = False
    body_crc32: int = 0
    orbit_any_host: bool = False


class DataVersionHeader(Header):
    """Request 322; its other fields are not used."""

    broker_addr: str = ""


class RouteHeader(Header):
    """Request 105."""

    topic: str | None = None
    accept_standard_json_only: bool = False


class KvHeader(Header):
    """Requests 100, 101, 102 and 219."""

    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class BrokerNameHeader(Header):
    """Requests 205 and 327."""

    broker_name: str = ""


class ClusterHeader(Header):
    """Request 224."""

    cluster: str = ""


class DeleteTopicHeader(Header):
    """Request 216."""

    topic: str = ""
    cluster_name: str | None = None


class Handlers:
    """Handlers of requests, which read and change the tables."""

    def __init__(
        self, routes: Routes, kv: KvTable, config: NameserverConfig, clock: Callable[[], int]
    ) -> None:
        self._routes = routes
        self._kv = kv
        self._config = config
        self._clock = clock

    def install(self, router: Router) -> None:
        """Register the handlers with a router."""
        handlers: dict[int, Handler] = {
            RequestCode.REGISTER_BROKER: self.register_broker,
            RequestCode.UNREGISTER_BROKER: self.unregister_broker,
            RequestCode.QUERY_DATA_VERSION: self.query_data_version,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self.route_by_topic,
            RequestCode.GET_BROKER_CLUSTER_INFO: self.cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self.wipe_write_permission,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self.add_write_permission,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self.topics,
            RequestCode.GET_TOPICS_BY_CLUSTER: self.topics_of_cluster,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self.system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self.unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self.unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self.unit_sub_ununit_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self.delete_topic,
            RequestCode.PUT_KV_CONFIG: self.put_kv,
            RequestCode.GET_KV_CONFIG: self.get_kv,
            RequestCode.DELETE_KV_CONFIG: self.delete_kv,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self.kv_namespace,
            RequestCode.UPDATE_NAMESRV_CONFIG: self.update_config,
            RequestCode.GET_NAMESRV_CONFIG: self.get_config,
        }
        for code, handler in handlers.items():
            router.add(handler, [code])

    # ---- brokers

    def register_broker(self, request: Command, connection: Connection) -> Command:
        """Register a broker; the answer names a slave's master."""
        header = RegisterHeader.decode(request)
        if header.body_crc32 != 0 and header.body_crc32 != body_crc(request.body):
            raise Refused(ResponseCode.SYSTEM_ERROR, "crc32 not match")
        body = decode_registration(
            request.body, version=request.version, compressed=header.compressed
        )
        broker = Registration(
            cluster=header.cluster_name,
            broker_name=header.broker_name,
            broker_id=header.broker_id,
            address=header.broker_addr,
            ha_address=header.ha_server_addr,
            version=body.version,
            topics=body.topics,
            filter_servers=body.filter_servers,
            any_host=header.orbit_any_host and from_this_machine(connection),
        )
        master = self._routes.register(broker, connection, self._clock())
        ext = {}
        if master is not None:
            address, ha_address = master
            beside_us = self._routes.is_any_host(address)
            given = seen_from(connection, lambda _: beside_us)
            ext = {"masterAddr": given(address), "haServerAddr": given(ha_address)}
        ordered = self._kv.namespace(ORDER_TOPIC_CONFIG)
        answer = None if ordered is None else dumps_lenient({"table": ordered})
        return respond(request, ext=ext, body=answer)

    def unregister_broker(self, request: Command, _connection: Connection) -> Command:
        """Remove a broker that shuts down."""
        header = BrokerHeader.decode(request)
        if header.broker_id is None:
            raise HeaderFault("field brokerId is missing")
        self._routes.unregister(
            header.cluster_name, header.broker_name, header.broker_id, header.broker_addr
        )
        return respond(request)

    def query_data_version(self, request: Command, _connection: Connection) -> Command:
        """Answer whether a broker has to send its whole table."""
        address = DataVersionHeader.decode(request).broker_addr
        asked = DataVersion.from_json(loads_lenient(request.body))
        known = self._routes.version_of(address)
        if known == asked:
            self._routes.touch(address, self._clock())
        return respond(
            request,
            ext={"changed": "false" if known == asked else "true"},
            body=None if known is None else dumps_lenient(known.as_json()),
        )

    # ---- routes

    def route_by_topic(self, request: Command, connection: Connection) -> Command:
        """Answer with the route of a topic."""
        header = RouteHeader.decode(request)
        topic = _said(header.topic)
        route = self._routes.route(topic)
        if route is None:
            raise Refused(
                ResponseCode.TOPIC_NOT_EXIST,
                f"No topic route info in name server for the topic: {topic}{FAQ}",
            )
        given = seen_from(connection, self._routes.is_any_host)
        value: dict[str, Any] = {
            "brokerDatas": [broker_json(broker, given) for broker in route.brokers],
            "filterServerTable": {
                given(address): servers for address, servers in route.filter_servers.items()
            },
        }
        if self._config.order_message_enable:
            order = self._kv.get(ORDER_TOPIC_CONFIG, topic)
            if order is not None:
                value["orderTopicConf"] = order
        value["queueDatas"] = [queue_json(queues) for queues in route.queues]
        standard = request.version >= Version.V4_9_4 or header.accept_standard_json_only
        return respond(request, body=standard_json(value) if standard else dumps_lenient(value))

    def cluster_info(self, request: Command, connection: Connection) -> Command:
        """Answer with all brokers, by cluster."""
        given = seen_from(connection, self._routes.is_any_host)
        value = {
            "brokerAddrTable": {
                broker.broker_name: broker_json(broker, given) for broker in self._routes.brokers()
            },
            "clusterAddrTable": self._routes.clusters(),
        }
        return respond(request, body=dumps_lenient(value))

    def wipe_write_permission(self, request: Command, connection: Connection) -> Command:
        """Remove the write permission of a broker's topics, as before a shutdown."""
        name = BrokerNameHeader.decode(request).broker_name
        count = self._routes.wipe_write_permission(name)
        _log.info("wipe write perm of broker[%s], client: %s, %d", name, connection, count)
        return respond(request, ext={"wipeTopicCount": str(count)})

    def add_write_permission(self, request: Command, connection: Connection) -> Command:
        """Restore the write permission of a broker's topics."""
        name = BrokerNameHeader.decode(request).broker_name
        count = self._routes.add_write_permission(name)
        _log.info("add write perm of broker[%s], client: %s, %d", name, connection, count)
        return respond(request, ext={"addTopicCount": str(count)})

    # ---- topics

    def topics(self, request: Command, _connection: Connection) -> Command:
        """List all topics."""
        return topic_list(request, self._routes.topics())

    def topics_of_cluster(self, request: Command, _connection: Connection) -> Command:
        """List the topics of a cluster."""
        cluster = ClusterHeader.decode(request).cluster
        return topic_list(request, self._routes.topics_of_cluster(cluster))

    def system_topics(self, request: Command, connection: Connection) -> Command:
        """List the topics named after clusters and brokers, with one broker's address."""
        names: dict[str, None] = {}
        for cluster, brokers in self._routes.clusters().items():
            names.update(dict.fromkeys([cluster, *brokers]))
        given = seen_from(connection, self._routes.is_any_host)
        addresses = (a for broker in self._routes.brokers() for a in broker.addresses.values())
        return topic_list(request, names, next(map(given, addresses), None))

    def unit_topics(self, request: Command, _connection: Connection) -> Command:
        """List the topics of units."""
        found = self._routes.topics_with_flag(lambda flag: bool(flag & TopicFlag.UNIT))
        return topic_list(request, found)

    def unit_sub_topics(self, request: Command, _connection: Connection) -> Command:
        """List the topics that units subscribe to."""
        found = self._routes.topics_with_flag(lambda flag: bool(flag & TopicFlag.UNIT_SUB))
        return topic_list(request, found)

    def unit_sub_ununit_topics(self, request: Command, _connection: Connection) -> Command:
        """List the topics that units subscribe to and that are not of units."""
        both = TopicFlag.UNIT | TopicFlag.UNIT_SUB
        found = self._routes.topics_with_flag(lambda flag: flag & both == TopicFlag.UNIT_SUB)
        return topic_list(request, found)

    def delete_topic(self, request: Command, _connection: Connection) -> Command:
        """Remove a topic until a broker registers it again."""
        header = DeleteTopicHeader.decode(request)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return respond(request)

    # ---- values

    async def put_kv(self, request: Command, _connection: Connection) -> Command:
        """Set a value; the answer waits until it is on disk."""
        header = KvHeader.decode(request)
        if header.namespace is None or header.key is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "namespace or key is null")
        self._kv.put(header.namespace, header.key, header.value)
        await self._kv.saved()
        return respond(request)

    def get_kv(self, request: Command, _connection: Connection) -> Command:
        """Look a value up."""
        header = KvHeader.decode(request)
        namespace, key = _said(header.namespace), _said(header.key)
        value = self._kv.get(namespace, key)
        if value is None:
            remark = f"No config item, Namespace: {namespace} Key: {key}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return respond(request, ext={"value": value})

    async def delete_kv(self, request: Command, _connection: Connection) -> Command:
        """Remove a value; the answer waits until the change is on disk."""
        header = KvHeader.decode(request)
        self._kv.delete(_said(header.namespace), _said(header.key))
        await self._kv.saved()
        return respond(request)

    def kv_namespace(self, request: Command, _connection: Connection) -> Command:
        """List the values of a namespace."""
        namespace = _said(KvHeader.decode(request).namespace)
        table = self._kv.namespace(namespace)
        if table is None:
            remark = f"No config item, Namespace: {namespace}"
            raise Refused(ResponseCode.QUERY_NOT_FOUND, remark)
        return respond(request, body=dumps_lenient({"table": table}))

    # ---- settings

    def update_config(self, request: Command, connection: Connection) -> Command:
        """Change those settings that a request is allowed to change."""
        try:
            properties = parse_properties(decode(request.body))
        except MalformedProperties:
            remark = "string2Properties error"
            raise Refused(ResponseCode.SYSTEM_ERROR, remark) from None
        if any(key in properties for key in CONFIG_PATHS):
            _log.warning("refused to change the path of the settings for %s", connection)
            raise Refused(ResponseCode.NO_PERMISSION, "Can not update config path")
        refused = self._config.refused(properties)
        if refused:
            _log.warning("refused to change %s for %s", ", ".join(refused), connection)
            remark = f"Can not update config {', '.join(refused)} by a request"
            raise Refused(ResponseCode.NO_PERMISSION, remark)
        applied = self._config.update(properties)
        _log.info("update config by %s: %s", connection, ", ".join(applied) or "nothing")
        if applied:
            self._save_config(applied)
        return respond(request)

    def _save_config(self, applied: list[str]) -> None:
        """Write settings to the operator's file, and keep its other lines."""
        path = Path(self._config.config_store_path)
        settings = self._config.as_properties()
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            persist.save(path, format_properties(settings).encode())
        else:
            changes = {key: settings[key] for key in applied}
            persist.save(path, rewrite_properties(content, changes))

    def get_config(self, request: Command, _connection: Connection) -> Command:
        """Answer with all settings."""
        return respond(request, body=format_properties(self._config.as_properties()).encode())


def _said(text: str | None) -> str:
    """Return a field's text, or Java's text for a missing one."""
    return "null" if text is None else text
