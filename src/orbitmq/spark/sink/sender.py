"""Sends packed rows with several requests under way, and retries until a broker stores them.

Theory of operation. `Sender.submit` passes a packed send to one of a few threads and returns. It
waits while the largest number of sends is under way, so a task's memory is bounded. A thread writes
the request and waits for its answer. Between sends, a thread holds no data. `drain` returns when
every send has been answered. The first failure ends the task: `submit` and `drain` raise it.

Order. Sends to one fixed queue (a sharding key, a queue id) go one after the other, in the order of
submission. A *lane* holds the ones that wait. Other sends may overtake each other.

Handling of answers:

==============================  ====================================================================
 stored                          done
 busy (`NOT_NOW`), lost          again after a pause, on another queue if the queue is not fixed;
 connection, no answer,          within `retry_timeout_ms` for the whole send
 no master
 stored but not safe, rejected   likewise, but `MAX_REFUSALS` times at most: flush or slave timeouts
 for another reason              do not go away by resending for minutes
 MESSAGE_ILLEGAL                 an error at once: no broker will accept it
 rows not stored before in a     an error at once, see `runs`
 ``repeatsOnly`` send
==============================  ====================================================================
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from orbitmq._native import Command
from orbitmq.client.producer.message import REDRIVEN_LIMIT, SendPolicy, request_fields
from orbitmq.errors import BrokerRefused, ConnectionLost, NoRoute, RemotingError, SendFailed
from orbitmq.protocol.bodies import MessageQueue
from orbitmq.protocol.codes import NOT_NOW, RequestCode, ResponseCode
from orbitmq.protocol.names import RETRY_PREFIX
from orbitmq.remoting.blocking import BlockingNetwork
from orbitmq.rpc.namespace import wrap
from orbitmq.rpc.pauses import Pauses
from orbitmq.spark.sink.pieces import Outbound
from orbitmq.spark.sink.queues import SinkQueues
from orbitmq.spark.sink.runs import EarlierRun

__all__ = ["Counts", "SendSettings", "Sender"]

FIRST_PAUSE_MS = 50.0
LONGEST_PAUSE_MS = 2000.0
MAX_REFUSALS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SendSettings:
    """Settings for the sends of a task."""

    group: str
    namespace: str | None = None
    max_in_flight: int
    send_timeout_ms: int
    """Timeout of one request."""
    retry_timeout_ms: int
    """Timeout of one send with all its attempts and pauses."""
    once: str | None = None
    """Scope in which brokers suppress repeats; None means that they store repeats."""


@dataclass(slots=True)
class Counts:
    """Counts of a task's rows, sends, retries and suppressed repeats."""

    rows: int = 0
    sends: int = 0
    bytes: int = 0
    busy: int = 0
    retried: int = 0
    suppressed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.rows + other.rows,
            self.sends + other.sends,
            self.bytes + other.bytes,
            self.busy + other.busy,
            self.retried + other.retried,
            self.suppressed + other.suppressed,
        )

    def __reduce__(self) -> tuple[object, ...]:
        numbers = (self.rows, self.sends, self.bytes, self.busy, self.retried, self.suppressed)
        return Counts, numbers


class Sender:
    """Sends the requests of one task. A context manager: leaving it ends the threads."""

    def __init__(
        self,
        settings: SendSettings,
        network: BlockingNetwork,
        queues: SinkQueues,
        *,
        earlier: EarlierRun | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Create the sender; `earlier` is the run that this one may repeat."""
        self.counts = Counts()
        self._settings = settings
        self._network = network
        self._queues = queues
        self._earlier = earlier
        self._clock = clock
        self._pause = pause
        self._policy = SendPolicy()
        self._threads = ThreadPoolExecutor(settings.max_in_flight, "orbitmq-send")
        self._changed = threading.Condition()
        self._under_way = 0
        self._failure: BaseException | None = None
        self._lanes: dict[MessageQueue, deque[Outbound]] = {}

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_details: object) -> None:
        with self._changed:
            self._failure = self._failure or SendFailed("the task has ended")
        self._threads.shutdown()

    def submit(self, send: Outbound) -> None:
        """Queue a send; return when there is room for the next one."""
        queue = self._queues.fixed(send)
        with self._changed:
            while self._under_way >= 2 * self._settings.max_in_flight and self._failure is None:
                self._changed.wait()
            if self._failure is not None:
                raise self._failure
            self._under_way += 1
            if queue is not None:
                lane = self._lanes.get(queue)
                if lane is not None:
                    lane.append(send)
                    return
                self._lanes[queue] = deque()
        self._threads.submit(self._run, send, queue)

    def drain(self) -> None:
        """Wait until brokers have stored all sends."""
        with self._changed:
            while self._under_way and self._failure is None:
                self._changed.wait()
            if self._failure is not None:
                raise self._failure

    # ---- Code on the threads

    def _run(self, send: Outbound, queue: MessageQueue | None) -> None:
        following: Outbound | None = send
        while following is not None:
            failure: BaseException | None = None
            try:
                if self._failure is None:
                    self._deliver(following, queue)
            except BaseException as error:
                failure = error
            with self._changed:
                self._failure = self._failure or failure
                self._under_way -= 1
                following = None if queue is None else self._next_in_lane(queue)
                self._changed.notify_all()

    def _next_in_lane(self, queue: MessageQueue) -> Outbound | None:
        lane = self._lanes[queue]
        if lane:
            return lane.popleft()
        del self._lanes[queue]
        return None

    def _deliver(self, send: Outbound, fixed: MessageQueue | None) -> None:
        settings, counts = self._settings, self.counts
        begin, budget_ms = self._clock(), settings.retry_timeout_ms
        pauses = Pauses(
            begin, budget_ms, self._clock, first_ms=FIRST_PAUSE_MS, longest_ms=LONGEST_PAUSE_MS
        )
        ext, code = self._request(send)
        last: MessageQueue | None = None
        refusals = 0
        for attempt in itertools.count(1):
            error: Exception
            try:
                last = fixed or self._queues.choose(send, last)
                answer = self._attempt(last, code, ext, send)
                if answer.code == ResponseCode.SUCCESS:
                    self._note_stored(send, answer, only_repeats="repeatsOnly" in ext)
                    return
                error = BrokerRefused(answer.code, answer.remark, address=last.broker_name)
                if answer.code == ResponseCode.MESSAGE_ILLEGAL:
                    raise error
                if answer.code in NOT_NOW:
                    with counts.lock:
                        counts.busy += 1
                else:
                    refusals += 1
            except (RemotingError, NoRoute) as missing:
                error = missing
                self._queues.doubt(send.topic)
            pause = None if refusals >= MAX_REFUSALS else pauses.next()
            if pause is None:
                took_ms = (self._clock() - begin) * 1000
                raise SendFailed(
                    f"{send.rows} rows to topic {send.topic!r} were not taken in {attempt} "
                    f"attempts in {took_ms:.0f} ms (retryTimeoutMs={budget_ms}), the last: {error}"
                ) from error
            if self._failure is not None:
                return  # another send has ended the task
            with counts.lock:
                counts.retried += 1
            self._pause(pause.ms / 1000)

    def _attempt(
        self, queue: MessageQueue, code: int, ext: dict[str, str], send: Outbound
    ) -> Command:
        address = self._queues.address(queue.broker_name)
        if address is None:
            raise ConnectionLost(
                f"no master of broker {queue.broker_name} is known; where a column brokerName has "
                "come with rows of another cluster, drop it"
            )
        mine = ext | {"e": str(queue.queue_id), "n": queue.broker_name}
        return self._network.invoke(
            address,
            code,
            ext=mine,
            body=send.body,
            timeout_ms=self._settings.send_timeout_ms,
            encoding="binary",
        )

    def _request(self, send: Outbound) -> tuple[dict[str, str], int]:
        now_ms = time.time_ns() // 1_000_000
        namespace = self._settings.namespace
        group, topic = wrap(namespace, self._settings.group), wrap(namespace, send.topic)
        ext = request_fields(group, topic, self._policy, 0, now_ms, 0)
        if send.topic.startswith(RETRY_PREFIX):
            ext["l"] = REDRIVEN_LIMIT
        ext["i"] = f"WAIT\1true\2INSTANCE_ID\1{namespace}" if namespace else "WAIT\1true"
        code: int = RequestCode.SEND_MESSAGE_V2
        if send.properties is not None:
            ext["i"] = f"{send.properties}\2{ext['i']}"
        else:
            ext["m"] = "true"
            code = RequestCode.SEND_BATCH_MESSAGE
        if self._settings.once is not None:
            ext["scope"] = self._settings.once
            code = RequestCode.ORBIT_SEND_ONCE
            if self._earlier is not None and self._earlier.leaves_only_repeats(send.topic):
                ext["repeatsOnly"] = "true"
        return ext, code

    def _note_stored(self, send: Outbound, answer: Command, *, only_repeats: bool) -> None:
        suppressed = int(answer.get_ext("suppressed") or 0) if self._settings.once else 0
        if only_repeats and suppressed < send.rows and self._earlier is not None:
            raise self._earlier.other_rows(send.topic, send.rows, suppressed)
        counts = self.counts
        with counts.lock:
            counts.rows += send.rows
            counts.sends += 1
            counts.bytes += len(send.body)
            counts.suppressed += suppressed
