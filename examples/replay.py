"""Read a topic again from some moment on, without disturbing any group."""

import sys
from datetime import UTC, datetime, timedelta

from orbitmq import Consumer, Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(address, group="example-shop") as producer:
    for number in range(5):
        producer.send(Message("example-history", b"%d" % number))

since = datetime.now(UTC) - timedelta(minutes=10)
with Consumer(address, group="example-auditor", auto_commit=False) as consumer:
    queues = consumer.queues("example-history")
    consumer.assign(queues)
    left = 0
    for queue in queues:
        start = consumer.offset_for_time(queue, since)
        consumer.seek(queue, start)
        left += consumer.end_offset(queue) - start
    while left > 0:
        for message in consumer.poll(100):
            print(message.queue.queue_id, message.queue_offset, message.body)
            left -= 1
