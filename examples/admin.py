"""What an operator does, from a program."""

import sys

from orbitmq import Admin, Message, Producer

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9876"

with Admin(address) as admin:
    print("brokers:", admin.cluster_info().clusters)
    admin.create_topic("example-audited", queues=4)
    admin.create_group("example-auditors", retry_max_times=3)

    with Producer(address, group="example-shop") as producer:
        for number in range(10):
            sent = producer.send(Message("example-audited", b"%d" % number, keys=[f"key-{number}"]))

    # A group that has not consumed yet shall begin at the end, or at any time.
    admin.reset_offsets("example-auditors", "example-audited", "earliest")
    print("behind by", admin.group_lag("example-auditors", "example-audited").total)
    admin.reset_offsets("example-auditors", "example-audited", "latest")
    print("behind by", admin.group_lag("example-auditors", "example-audited").total)

    for message in admin.messages_by_key("example-audited", "key-7"):
        print("found by key:", message.body)
    found = admin.message_by_id("example-audited", sent.message_id)
    print("found by id:", found.body if found else None)

    for name, broker in admin.cluster_info().brokers.items():
        if broker.master is not None:
            print(name, admin.broker_runtime_info(broker.master)["brokerVersionDesc"])
    admin.delete_group("example-auditors")
    admin.delete_topic("example-audited")
