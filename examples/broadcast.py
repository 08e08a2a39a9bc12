"""Every consumer gets every message. Each keeps its offsets in a file of its own."""

import sys
import tempfile
import threading

from orbitmq import Message, Producer, PushConsumer, ReceivedMessage

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
told = threading.Semaphore(0)


def cache(name: str, directory: str) -> PushConsumer:
    consumer = PushConsumer(
        address,
        group="example-caches",
        broadcast=True,
        consume_from="earliest",
        instance_name=name,  # the same at each start: it is part of the offsets' path
        offset_directory=directory,  # ~/.rocketmq_offsets without it
    )

    @consumer.on("example-prices")
    def handle(message: ReceivedMessage) -> None:
        print(name, "hears of", message.body.decode())
        told.release()

    return consumer


with Producer(address, group="example-shop") as producer:
    producer.send(Message("example-prices", b"apples are 1.20 now"))

with (
    tempfile.TemporaryDirectory() as directory,
    cache("cache-1", directory),
    cache("cache-2", directory),
):
    for _ in range(2):
        told.acquire()
