"""Ask by a message, and wait for the answer of whoever consumes it."""

import sys

from orbitmq import Admin, Message, Producer, PushConsumer, ReceivedMessage, reply_to

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Admin(address) as admin:
    admin.create_topic("example-questions", queues=1)

answering = Producer(address, group="example-answers").start()
consumer = PushConsumer(address, group="example-prices", consume_from="earliest")


@consumer.on("example-questions")
def handle(message: ReceivedMessage) -> None:
    answering.send(reply_to(message, b"1.20 EUR"))


with Producer(address, group="example-askers") as producer, consumer:
    question = Message("example-questions", b"how much is an apple?")
    reply = producer.request(question, timeout_ms=10_000)
    print(reply.body.decode())
answering.close()
