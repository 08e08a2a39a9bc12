"""Consume queues in order: the next message of a queue comes when the one before is done."""

import sys
import threading

from orbitmq import PushConsumer, ReceivedMessage

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
consumer = PushConsumer(address, group="example-stepper", consume_from="earliest")
done = threading.Semaphore(0)


@consumer.on("example-steps", orderly=True)
def handle(message: ReceivedMessage) -> None:
    print(message.queue.queue_id, message.body.decode())
    done.release()


with consumer:
    for _ in range(6):  # a service would call consumer.run() instead
        done.acquire()
