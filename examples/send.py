"""Send a message, and see where the broker put it."""

import sys

from orbitmq import Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(address, group="example-shop") as producer:
    message = Message(
        "example-orders",
        b'{"order": 42, "price": 12.5}',
        tags="created",  # what consumers can choose by
        keys=["order-42"],  # what an operator can find it by
        properties={"shop": "berlin"},
    )
    result = producer.send(message)
    print("sent", result.message_id, "to", result.queue, "at", result.queue_offset)

    # Where a loss now and then does no harm, do not wait for the broker:
    producer.send_oneway(Message("example-clicks", b"/index.html"))
