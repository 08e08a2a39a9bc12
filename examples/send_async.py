"""Send many messages at once on one event loop."""

import asyncio
import sys

from orbitmq import AsyncProducer, Message

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with AsyncProducer(address, group="example-shop") as producer:
        messages = [Message("example-orders", b"%d" % number) for number in range(1000)]
        results = await asyncio.gather(*(producer.send(message) for message in messages))
        queues = {result.queue for result in results}
        print("sent", len(results), "messages to", len(queues), "queues")


asyncio.run(main())
