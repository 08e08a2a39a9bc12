"""Administration of a cluster, as data: verbs take and return values and print nothing.

There is one module per noun. A verb is a flow (see `orbitmq.rpc.flow`): it yields requests to
nameservers and brokers and returns its result. So one implementation serves `Admin`, `AsyncAdmin`,
the command line, and tests without sockets. A verb about the whole cluster starts from the
nameservers' addresses and applies a change to every master concerned.

Names are those stored by the brokers: with a namespace, ``namespace%name``.
"""
