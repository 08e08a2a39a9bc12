"""Send a message that is delivered later.

Levels are the broker's: 1 s, 5 s, 10 s, 30 s, 1 min, 2 min … 2 h, unless it is set up otherwise.
"""

import sys
import time

from orbitmq import Consumer, Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Producer(address, group="example-shop") as producer:
    sent = time.monotonic()
    producer.send(Message("example-reminders", b"your basket is waiting", delay_level=1))

with Consumer(
    address, "example-reminders", group="example-mailer", consume_from="first"
) as consumer:
    for message in consumer:
        print(message.body.decode(), f"({time.monotonic() - sent:.1f} s later)")
        break
