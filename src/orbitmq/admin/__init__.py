"""What an operator does to a cluster, as data: verbs take values and return values, nobody prints.

One module per noun. A verb is a flow (see `orbitmq.rpc.flow`): it yields what it wants asked
of nameservers and brokers and returns its result, so the same text serves `Admin` and `AsyncAdmin`,
the command line and a test without sockets. Every verb that speaks of the whole cluster starts from
the nameservers' addresses; what it changes, it changes on every master it concerns.

Names are those the brokers keep: with a namespace, that is ``namespace%name``.
"""
