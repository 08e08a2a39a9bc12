"""The snippets of the README run as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

from orbitmq import Message, NewMessage, Producer, Store
from orbitmq.testing import LocalCluster

README = Path(__file__).parent.parent / "README.md"
SNIPPETS = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
SEND_AND_RECEIVE, ITERATE, CLUSTER, READ_STORE = SNIPPETS
LIMIT_S = 30


def lines_of(snippet: str, cluster: LocalCluster, wanted: int) -> list[str]:
    """Run a snippet that would go on for ever until it has printed so many lines."""
    program = snippet.replace("127.0.0.1:9876", cluster.address)
    assert program != snippet
    command = [sys.executable, "-u", "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            return [process.stdout.readline().rstrip() for _ in range(wanted)]
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def test_sending_and_receiving() -> None:
    with LocalCluster() as cluster:
        sent, received = lines_of(SEND_AND_RECEIVE, cluster, 2)
    message_id = sent.removeprefix("sent ")
    assert received == f"received {message_id} b'42 apples'"


def test_iterating() -> None:
    with LocalCluster() as cluster:
        with Producer(cluster.address, group="p") as producer:
            queue = producer.send(Message("orders", b"1")).queue
            producer.send(Message("orders", b"2"), queue=queue)
        lines = lines_of(ITERATE, cluster, 2)
    assert lines == [f"{queue.queue_id} 0 b'1'", f"{queue.queue_id} 1 b'2'"]


def test_a_cluster_tells_where_it_is() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CLUSTER], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"point any RocketMQ client at 127\.0\.0\.1:\d+\n", run.stdout)


def test_the_store_snippet_prints_every_message(tmp_path: Path) -> None:
    bodies = [b"%d" % number for number in range(100)]
    with Store.open(tmp_path, create=True) as store:
        store.append_many(
            [NewMessage("orders", body, queue_id=1, properties={"KEYS": "k"}) for body in bodies]
        )
    run = subprocess.run(
        [sys.executable, "-c", READ_STORE, tmp_path], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines() == [
        f"orders 1 {number} ('k',) {body!r}" for number, body in enumerate(bodies)
    ]
