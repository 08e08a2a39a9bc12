"""A message that consumers see only if the sender's own work succeeds."""

import sqlite3
import sys

from orbitmq import (
    Message,
    ReceivedMessage,
    SendResult,
    TransactionProducer,
    TransactionState,
)

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"
database = sqlite3.connect(":memory:", check_same_thread=False)
database.execute("create table orders (number text primary key)")


def pay(message: Message, _sent: SendResult) -> TransactionState:
    """Do the work; the message is with the broker already, but nobody sees it."""
    with database:
        database.execute("insert into orders values (?)", [message.keys[0]])
    return TransactionState.COMMIT


def check(message: ReceivedMessage) -> TransactionState:
    """Tell the broker, should it ask, how the work ended: it did not hear of it."""
    found = database.execute("select 1 from orders where number = ?", [message.keys[0]]).fetchone()
    return TransactionState.COMMIT if found else TransactionState.ROLLBACK


with TransactionProducer(address, group="example-payments", check=check) as producer:
    result = producer.send_in_transaction(Message("example-paid", b"42 is paid", keys=["42"]), pay)
    print(result.sent.message_id, result.state.name)
