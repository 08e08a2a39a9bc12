"""Send many messages as one request."""

import sys

from orbitmq import Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

# A batch is stored as a whole, in one queue.
with Producer(address, group="example-meters") as producer:
    readings = [Message("example-readings", b"%d" % value) for value in range(100)]
    result = producer.send_many(readings)
    print("a batch begins at offset", result.queue_offset, "of", result.queue)

# Or let batches form by themselves: messages wait up to 5 ms for others to go with.
with Producer(address, group="example-meters", linger_ms=5) as producer:
    futures = [producer.enqueue(reading) for reading in readings]
    queues = {future.result().queue for future in futures}
    print("sent", len(futures), "messages in batches to", len(queues), "queues")
