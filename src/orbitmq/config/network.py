"""Settings of accepted connections (nameserver and broker) and of a broker's own connections."""

from __future__ import annotations

import os
from typing import Final

from orbitmq.config.settings import Settings, fixed, idle, live
from orbitmq.config.tls import WithTls

__all__ = ["ConnectionSettings", "ServerSettings"]

ONE_LOOP: Final = idle("one event loop serves all connections; there are no such threads")
KERNEL_BUFFERS: Final = idle("the kernel adapts the buffers of each socket to its traffic")
OWN_BOUND: Final = idle(
    "another, fixed limit bounds the memory of a connection whose peer does not read"
)
NO_SEMAPHORE: Final = idle("requests in progress are limited by memory, not by number")
NO_ALLOCATOR: Final = idle("there is no pool of buffers")


class ServerSettings(WithTls):
    """Settings of accepted connections."""

    listen_port: int = fixed(8888, "Port to listen on.")
    server_channel_max_idle_time_seconds: int = live(
        120, "Seconds after which an idle connection is closed.", read_at_start=True
    )
    server_socket_backlog: int = fixed(
        1024, idle("the backlog is always 1024 connections, or the kernel's limit if that is lower")
    )
    server_socket_snd_buf_size: int = fixed(0, KERNEL_BUFFERS)
    server_socket_rcv_buf_size: int = fixed(0, KERNEL_BUFFERS)
    write_buffer_high_water_mark: int = fixed(0, OWN_BOUND)
    write_buffer_low_water_mark: int = fixed(0, OWN_BOUND)
    server_worker_threads: int = live(8, ONE_LOOP)
    server_callback_executor_threads: int = live(0, ONE_LOOP)
    server_selector_threads: int = live(3, ONE_LOOP)
    server_oneway_semaphore_value: int = live(256, NO_SEMAPHORE)
    server_async_semaphore_value: int = live(64, NO_SEMAPHORE)
    server_pooled_byte_buf_allocator_enable: bool = live(True, NO_ALLOCATOR)
    use_epoll_native_selector: bool = live(False, idle("epoll is always used"))


class ConnectionSettings(Settings):
    """Settings of the connections that a broker opens."""

    connect_timeout_millis: int = live(
        3000, idle("the timeout of a connection to a nameserver is always three seconds")
    )
    client_channel_max_idle_time_seconds: int = live(
        120, idle("a broker sends a request to its nameservers at least every minute")
    )
    client_close_socket_if_timeout: bool = live(
        True,
        idle("a connection stays open after a late response; the next request shows its state"),
    )
    client_socket_snd_buf_size: int = fixed(0, KERNEL_BUFFERS)
    client_socket_rcv_buf_size: int = fixed(0, KERNEL_BUFFERS)
    use_tls: bool = fixed(
        False,
        "Encrypts the broker's connections to nameservers, as `tls.enable` does.",
        key="useTLS",
    )
    client_worker_threads: int = live(4, ONE_LOOP)
    client_callback_executor_threads: int = fixed(
        says=ONE_LOOP, factory=lambda: os.cpu_count() or 1, otherwise="the number of processors"
    )
    client_oneway_semaphore_value: int = live(65535, NO_SEMAPHORE)
    client_async_semaphore_value: int = live(65535, NO_SEMAPHORE)
    channel_not_active_interval: int = live(
        60_000, idle("4.9.7 does not read it either"), long=True
    )
    client_pooled_byte_buf_allocator_enable: bool = live(False, NO_ALLOCATOR)
