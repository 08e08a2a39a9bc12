"""Why a group is not moving, and where a message is, in plain words.

Two layers. *Observing* asks the cluster and returns what it said as values (`observations`), with
no opinion. *Diagnosing* is a pure function from those values to findings: each has a verdict that
programs can compare, a sentence for people, and what to do next. So every rule is tested without a
socket, and a dashboard can draw what the command line prints.
"""
