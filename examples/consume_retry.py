"""What happens when a handler fails: the message comes again, and in the end is a dead letter."""

import logging
import sys
import threading

from orbitmq import Message, Producer, PushConsumer, ReceivedMessage, RetryLater

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
logging.getLogger("orbitmq").setLevel(logging.CRITICAL)  # it logs each failure with its traceback
consumer = PushConsumer(address, group="example-careful", consume_from="earliest")
finished = threading.Semaphore(0)


@consumer.on("example-payments")
def handle(message: ReceivedMessage) -> None:
    print(message.body.decode(), "try", message.reconsume_times + 1)
    if message.body == b"nonsense":
        finished.release()
        raise RetryLater.dead_letter("no retry can help")  # it is kept in %DLQ%example-careful
    if message.reconsume_times == 0:
        # Any exception would do; this one also says when: the broker's level 1 is a second.
        raise RetryLater("the bank does not answer", delay_level=1)
    finished.release()


with Producer(address, group="example-shop") as producer:
    producer.send(Message("example-payments", b"12.50 EUR"))
    producer.send(Message("example-payments", b"nonsense"))

with consumer:
    for _ in range(2):
        finished.acquire()
