"""A broker in a process of its own that kills itself at a chosen moment of a transaction.

``python -m tests.broker.transaction_victim DIRECTORY TOPIC before|after`` prints the broker's
address. It dies by SIGKILL just before or just after the next message for TOPIC is appended, once a
line on stdin has armed it: ``end`` arms it for what is asked over the wire, ``round`` for a round
of the check-back service.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from orbitmq._native import Appended, NewMessage
from orbitmq.broker.write.writer import MessageWriter
from orbitmq.testing import LocalCluster
from tests.broker.test_transactions import SETTINGS


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    directory, topic, moment = sys.argv[1:]
    append = MessageWriter._append
    is_armed = False

    def watched(self: MessageWriter, message: NewMessage, level: int, **rest: bool) -> Appended:
        is_the_one = is_armed and message.topic == topic
        if is_the_one and moment == "before":
            die()
        appended = append(self, message, level, **rest)
        if is_the_one:
            die()
        return appended

    MessageWriter._append = watched  # type: ignore[method-assign]
    with LocalCluster(data=directory, settings=SETTINGS) as cluster:
        (broker,) = cluster.brokers.values()
        print(broker.config.address, flush=True)
        for line in sys.stdin:
            is_armed = True
            print("armed", flush=True)
            while line.strip() == "round":
                cluster.run(broker.transaction_check.round())
                time.sleep(0.001)  # Messages that are too young now become old enough.


if __name__ == "__main__":
    main()
