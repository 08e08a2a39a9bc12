"""Diagnoses of groups that do not move and of messages that are not consumed, in plain words.

There are two layers. *Observing* sends requests to the cluster and returns the answers as values
(`observations`), without judging them. *Diagnosing* is a pure function from those values to
findings. Each has a verdict that programs can compare, a sentence for people, and the next step. So
every rule is tested without a socket, and a dashboard can show the findings of the command line.
"""
