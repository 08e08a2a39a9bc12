"""What `cluster export` writes: topics and groups, settings, numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from orbitmq.cli.group_looks import is_internal
from orbitmq.cli.progress import progress

if TYPE_CHECKING:
    from orbitmq.admin.admin import Admin

__all__ = ["EXPORTS"]

KEPT_SETTINGS: Final = (
    *("brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime"),
    *("filterServerNums", "flushDiskType", "maxMessageSize", "messageDelayLevel"),
    *("msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable"),
    *("useTLS", "autoCreateTopicEnable", "autoCreateSubscriptionGroup"),
)
"""Settings of brokers that say what a cluster is; the others say how it was tuned."""


def _is_wanted(name: str, special: bool) -> bool:
    return special or not name.startswith(("%RETRY%", "%DLQ%"))


def metadata(admin: Admin, brokers: Mapping[str, str], special: bool) -> dict[str, Any]:
    """Return the topics and the groups of brokers, as they are set up."""
    topics: dict[str, Any] = {}
    names = [name for name in admin.topic_names() if _is_wanted(name, special)]
    for name in progress(names, len(names), "Topics"):
        configs = admin.topic_configs(name)
        chosen = {one: configs[one].as_json() for one in brokers if one in configs}
        if chosen:
            topics[name] = chosen
    groups: dict[str, Any] = {}
    for name, of_broker in admin.group_configs().items():
        chosen = {one: of_broker[one].as_json() for one in brokers if one in of_broker}
        if chosen and not is_internal(name):
            groups[name] = chosen
    return {"topics": topics, "groups": groups}


def configs(admin: Admin, brokers: Mapping[str, str], _special: bool) -> dict[str, Any]:
    """Return the settings of brokers that say what the cluster is."""
    found = {}
    for name, address in progress(brokers.items(), len(brokers), "Brokers"):
        settings = admin.broker_config(address)
        found[name] = {key: settings[key] for key in sorted(KEPT_SETTINGS) if key in settings}
    return {"nameservers": list(admin.settings.nameservers), "brokers": found}


def metrics(admin: Admin, brokers: Mapping[str, str], _special: bool) -> dict[str, Any]:
    """Return what brokers say of themselves in numbers."""
    found = {}
    for name, address in progress(brokers.items(), len(brokers), "Brokers"):
        info = admin.broker_runtime_info(address)
        found[name] = dict(sorted(info.items()))
    return {"brokers": found, "topics": len(admin.topic_names()), "groups": _group_count(admin)}


def _group_count(admin: Admin) -> int:
    return sum(not is_internal(name) for name in admin.group_configs())


EXPORTS: Final[Mapping[str, Callable[[Any, Mapping[str, str], bool], dict[str, Any]]]] = {
    "metadata": metadata,
    "configs": configs,
    "metrics": metrics,
}
