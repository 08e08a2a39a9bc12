"""Send a message that is delivered later.

Levels are the broker's: 1 s, 5 s, 10 s, 30 s, 1 min, 2 min … 2 h, unless it is set up otherwise.
Any other time goes with `delay` and `deliver_at`.
"""

import sys
import time
from datetime import timedelta

from orbitmq import Consumer, Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(address, group="example-shop") as producer:
    sent = time.monotonic()
    producer.send(Message("example-reminders", b"your basket is waiting", delay_level=1))
    other = Message("example-reminders", b"it still is", delay=timedelta(seconds=1.5))
    producer.send(other)

with Consumer(
    address, "example-reminders", group="example-mailer", consume_from="earliest"
) as consumer:
    for count, message in enumerate(consumer, 1):
        print(message.body.decode(), f"({time.monotonic() - sent:.1f} s later)")
        if count == 2:
            break
