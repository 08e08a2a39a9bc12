"""Ask for messages, and commit by hand when they are safe."""

import sys

from orbitmq import Consumer, Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(address, group="example-shop") as producer:
    for number in range(10):
        producer.send(Message("example-entries", b"%d" % number))

# One by one. A message is done when the loop asks for the next one.
with Consumer(
    address, "example-entries", group="example-reader", consume_from="earliest"
) as consumer:
    for count, message in enumerate(consumer, start=1):
        print(message.queue.queue_id, message.queue_offset, message.body)
        if count == 10:
            break

# In lists, and committed only when we say so.
with Consumer(
    address,
    "example-entries",
    group="example-ledger",
    consume_from="earliest",
    auto_commit=False,
) as consumer:
    total = 0
    while total < 10:
        messages = consumer.poll(1000)
        total += len(messages)
        consumer.commit()  # after they are in the database
    print("committed", total)
