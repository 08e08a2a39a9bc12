"""An Apache Kafka 4.1 broker of one node on a free port, from its locked jars."""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benches.sides import BenchError
from compat import jars
from compat.java_cluster import free_port
from compat.java_machine import java_tools

LOCK_FILE = Path(__file__).resolve().with_name("jars-kafka-4.1.0.lock")


@contextmanager
def kafka_broker(directory: Path, partitions: int) -> Iterator[str]:
    """Its address, while it runs."""
    tools = java_tools()
    if tools is None:
        raise BenchError("java (JDK 17) is needed to run Apache Kafka")
    directory.mkdir(parents=True)
    port, controller = free_port(), free_port()
    conf = directory / "server.properties"
    conf.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
        "controller.listener.names=CONTROLLER\n"
        f"log.dirs={directory / 'log'}\nnum.partitions={partitions}\n"
        "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
        "group.initial.rebalance.delay.ms=0\n"
    )
    home = jars.fetch(LOCK_FILE)
    java = [tools[0], "-Xms1g", "-Xmx1g", "-cp", jars.class_path(home, LOCK_FILE)]
    cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    # In one word: an id may begin with what looks like an option.
    wishes = [f"--cluster-id={cluster_id}", "-c", str(conf)]
    format_ = [*java, "kafka.tools.StorageTool", "format", *wishes]
    done = subprocess.run(format_, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"Kafka's directory cannot be made: {done.stdout}{done.stderr}")
    log = directory / "kafka.log"
    with log.open("w") as out:
        process = subprocess.Popen([*java, "kafka.Kafka", str(conf)], stdout=out, stderr=out)
    try:
        _until_it_answers(process, port, log)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    from confluent_kafka.admin import AdminClient  # only a benchmark needs it

    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
    for _ in range(60):
        if process.poll() is not None:
            raise BenchError(f"Kafka ended: {log.read_text()[-2000:]}")
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except Exception:
            continue
    raise BenchError(f"Kafka does not answer: {log.read_text()[-2000:]}")
