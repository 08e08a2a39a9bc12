"""A cluster in its own process, so that the measured memory is only that of the cluster.

Prints where it listens and keeps its store; then, for each line of its input, how many pulls it
holds. Takes the number of descriptors it may have, all that there are if none is given.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys

from orbitmq.testing import LocalCluster


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if len(sys.argv) > 1:
        most = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with LocalCluster() as cluster:
        (broker,) = cluster.brokers.values()

        async def held() -> int:
            await asyncio.sleep(0)
            return len(broker.held)

        tell(
            {
                "nameserver": cluster.address,
                "broker": broker.config.address,
                "store": broker.config.store_path_root_dir,
            }
        )
        for _ in sys.stdin:
            tell({"held": cluster.run(held())})


def tell(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
