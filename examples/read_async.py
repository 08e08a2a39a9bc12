"""Messages as an asynchronous iterator."""

import asyncio
import sys

from orbitmq import AsyncConsumer, AsyncProducer, Message

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    async with AsyncProducer(address, group="example-shop") as producer:
        for number in range(10):
            await producer.send(Message("example-async-entries", b"%d" % number))

    count = 0
    async with AsyncConsumer(
        address, "example-async-entries", group="example-async-reader", consume_from="earliest"
    ) as consumer:
        async for message in consumer:
            print(message.body)
            count += 1
            if count == 10:
                break


asyncio.run(main())
