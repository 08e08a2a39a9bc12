"""The client: producers and consumers for any cluster that speaks RocketMQ's remoting protocol.

Theory of operation. A decision that needs the network (which nameserver to ask, which queue to try
next, what to do with a pull's answer) is a generator, a *flow*: it yields wishes (`Call`, `Notify`,
`Pause`) and is sent their results. Two drivers carry wishes out, one awaiting, one blocking, so
that ``Producer`` and ``AsyncProducer`` and their siblings share one text, and a test can play the
network. What is known (routes, faults, offsets) is plain state without I/O in ``state/``.

Work that goes on in the background (routes, heartbeats, requests from brokers) belongs to a
`ClientInstance` on an event loop: the user's own for the ``Async`` classes, one daemon thread's for
the others.
"""
