"""The snippets of the README run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

from orbitmq import NewMessage, Store

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_a_cluster_tells_where_it_is() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SNIPPETS[0]], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"point any RocketMQ client at 127\.0\.0\.1:\d+\n", run.stdout)


def test_the_store_snippet_prints_every_message(tmp_path: Path) -> None:
    snippet = SNIPPETS[1]
    bodies = [b"%d" % number for number in range(100)]
    with Store.open(tmp_path) as store:
        store.append_many(
            [NewMessage("orders", body, queue_id=1, properties={"KEYS": "k"}) for body in bodies]
        )
    run = subprocess.run(
        [sys.executable, "-c", snippet, tmp_path], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [
        f"orders 1 {number} ('k',) {body!r}" for number, body in enumerate(bodies)
    ]
