"""Settings of connections: the server's, which nameserver and broker share, and the client's."""

from __future__ import annotations

import os

from orbitmq.config.settings import Settings, fixed, live
from orbitmq.config.tls import WithTls

__all__ = ["ClientSettings", "ServerSettings"]


class ServerSettings(WithTls):
    """How connections are accepted."""

    listen_port: int = fixed(8888)
    server_channel_max_idle_time_seconds: int = live(120)
    server_socket_backlog: int = fixed(1024)
    server_socket_snd_buf_size: int = fixed(0)
    server_socket_rcv_buf_size: int = fixed(0)
    write_buffer_high_water_mark: int = fixed(0)
    write_buffer_low_water_mark: int = fixed(0)
    # Threads and allocators of a server that is not built like this one: kept and shown.
    server_worker_threads: int = live(8)
    server_callback_executor_threads: int = live(0)
    server_selector_threads: int = live(3)
    server_oneway_semaphore_value: int = live(256)
    server_async_semaphore_value: int = live(64)
    server_pooled_byte_buf_allocator_enable: bool = live(True)
    use_epoll_native_selector: bool = live(False)


class ClientSettings(Settings):
    """How a broker connects to others."""

    connect_timeout_millis: int = live(3000)
    client_channel_max_idle_time_seconds: int = live(120)
    client_close_socket_if_timeout: bool = live(True)
    client_socket_snd_buf_size: int = fixed(0)
    client_socket_rcv_buf_size: int = fixed(0)
    use_tls: bool = fixed(False, key="useTLS")
    client_worker_threads: int = live(4)
    client_callback_executor_threads: int = fixed(factory=lambda: os.cpu_count() or 1)
    client_oneway_semaphore_value: int = live(65535)
    client_async_semaphore_value: int = live(65535)
    channel_not_active_interval: int = live(60_000, long=True)
    client_pooled_byte_buf_allocator_enable: bool = live(False)
