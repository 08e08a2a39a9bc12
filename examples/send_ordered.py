"""Messages with one sharding key go to one queue, and stay in order there."""

import sys

from orbitmq import Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(address, group="example-shop") as producer:
    for step in ("created", "paid", "shipped"):
        for customer in ("anna", "ben"):
            message = Message("example-steps", f"{customer}: {step}".encode())
            result = producer.send(message, sharding_key=customer)
            print(customer, step, "in", result.queue)
