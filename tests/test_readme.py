"""The snippet of the README runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

from orbitmq import NewMessage, Store

README = Path(__file__).parent.parent / "README.md"


def test_the_snippet_prints_every_message(tmp_path: Path) -> None:
    (snippet,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
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
