"""The client: producers and consumers for any cluster that uses RocketMQ's remoting protocol.

Theory of operation. A decision that needs the network is a generator, a *flow*. Examples: which
nameserver to query, which queue to try next, how to handle the answer to a pull. A flow yields
operations (`Call`, `Notify`, `Pause`) and receives their results. Two drivers in `rpc.drivers`
carry out the operations, one on the calling thread, one on an event loop. So ``Producer`` and
``AsyncProducer`` and their siblings share one implementation, and a test can play the network.
Tables of routes, broker faults and offsets are plain classes without I/O: `RouteTable`,
`LatencyFaults`, `OffsetTable`.

Background work (routes, heartbeats, requests from brokers) belongs to a `ClientInstance` on an
event loop. The ``Async`` classes use the user's own loop, the others the loop of one daemon thread.
"""
