"""Pull by hand, at a pace of one's own, from the queues that are this member's share of a topic."""

import sys
import threading

from orbitmq import Admin, Message, Producer, PullSchedule, PullStatus, PullTurn

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
schedule = PullSchedule(address, group="example-archive", consume_from="earliest")
archived = threading.Semaphore(0)


@schedule.on("example-events")
def archive(turn: PullTurn) -> None:
    result = turn.pull(100)
    for message in result.messages:
        print(turn.queue.queue_id, message.body.decode())
        archived.release()
    turn.commit(result.next_offset)  # brokers hear of it every few seconds, and at the end
    turn.next_in_s = 0.5 if result.status is PullStatus.NO_NEW_MESSAGE else 0


with Admin(address) as admin, Producer(address, group="example-shop") as producer:
    admin.create_topic("example-events", queues=2)
    for number in range(6):
        producer.send(Message("example-events", b"event %d" % number))

with schedule:
    for _ in range(6):
        archived.acquire(timeout=20)
