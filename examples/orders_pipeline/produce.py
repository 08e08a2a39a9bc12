"""Step 2: send ten minutes of a shop's orders within a few seconds, and say what was sent.

The orders' own times are those ten minutes; last orders, an hour later, let Spark know that nothing
more will come for them.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from orbitmq import Admin, Message, Producer

ADDRESS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
OPENING = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
MINUTES = 10
PRICES = {
    "tea": "2.50",
    "coffee": "3.20",
    "lemonade": "2.90",
    "bread": "4.10",
    "croissant": "1.80",
    "apple": "0.60",
    "banana": "0.40",
    "cherry": "5.00",
}


def order(number: int, product: str, at: datetime) -> Message:
    fields = {
        "id": str(number),
        "product": product,
        "amount": PRICES[product],
        "at": at.isoformat(),
    }
    return Message("orders", json.dumps(fields).encode(), tags=product, keys=[f"order-{number}"])


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12_000
    chance = random.Random(4)
    with Admin(ADDRESS) as admin:
        for topic in ("orders", "orders-per-minute"):
            admin.create_topic(topic, queues=4)
    sold: Counter[str] = Counter()
    batch: list[Message] = []
    with Producer(ADDRESS, group="shop") as producer:
        for number in range(count):
            product = chance.choice(list(PRICES))
            late = timedelta(seconds=chance.uniform(0, 30))  # they do not arrive in order
            at = OPENING + timedelta(minutes=MINUTES) * number / count - late
            batch.append(order(number, product, max(at, OPENING)))
            sold[product] += 1
            if len(batch) == 100:
                producer.send_many(batch)
                batch = []
        if batch:
            producer.send_many(batch)
        for queue in producer.queues("orders"):  # every queue, as each is read on its own
            producer.send(order(count, "tea", OPENING + timedelta(hours=1)), queue=queue)
    revenue = sum((Decimal(PRICES[product]) * sold[product] for product in sold), Decimal(0))
    print(json.dumps({"orders": count, "revenue": str(revenue)}))


if __name__ == "__main__":
    main()
