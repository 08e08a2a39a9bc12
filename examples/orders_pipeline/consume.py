"""Step 4: receive what the pipeline has sent, until every minute of the shop has come."""

from __future__ import annotations

import json
import os
import sys
import time
from decimal import Decimal

from orbitmq import Consumer

ADDRESS = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
LIMIT_S = 180


def main() -> None:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 12_000
    orders, revenue, results = 0, Decimal(0), 0
    deadline = time.monotonic() + LIMIT_S
    with Consumer(
        ADDRESS, "orders-per-minute", group="report", consume_from="earliest"
    ) as consumer:
        while orders < wanted and time.monotonic() < deadline:
            for message in consumer.poll(timeout_s=1):
                result = json.loads(message.body, parse_float=Decimal)
                orders += result["orders"]
                revenue += result["revenue"]
                results += 1
    print(json.dumps({"results": results, "orders": orders, "revenue": str(revenue)}))


if __name__ == "__main__":
    main()
