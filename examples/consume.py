"""A push consumer: functions are called with messages, on a pool of threads."""

import sys
import threading

from orbitmq import Message, Producer, PushConsumer, ReceivedMessage

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
consumer = PushConsumer(address, group="example-billing", consume_from="earliest")
handled = threading.Event()


@consumer.on("example-invoices", tags="created || paid")
def handle(message: ReceivedMessage) -> None:
    # To return is to be done with it; to raise is to get it again later.
    print(message.message_id, message.tags, message.keys, message.body.decode())
    handled.set()


with Producer(address, group="example-shop") as producer:
    producer.send(Message("example-invoices", b"invoice 1", tags="created", keys=["1"]))

# A service would just call consumer.run(), which returns at SIGTERM or Ctrl-C.
with consumer:
    handled.wait()
