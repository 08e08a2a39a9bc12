"""A push consumer with coroutines: at most `concurrency` of them at a time."""

import asyncio
import sys

from orbitmq import AsyncProducer, AsyncPushConsumer, Message, ReceivedMessage

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"


async def main() -> None:
    consumer = AsyncPushConsumer(
        address, group="example-async-billing", consume_from="earliest", concurrency=10
    )
    handled = asyncio.Semaphore(0)

    @consumer.on("example-async-invoices")
    async def handle(message: ReceivedMessage) -> None:
        await asyncio.sleep(0.01)  # a database, another service ...
        print(message.body.decode())
        handled.release()

    async with AsyncProducer(address, group="example-shop") as producer:
        for number in range(20):
            await producer.send(Message("example-async-invoices", b"invoice %d" % number))

    async with consumer:  # a service would just await consumer.run()
        for _ in range(20):
            await handled.acquire()


asyncio.run(main())
