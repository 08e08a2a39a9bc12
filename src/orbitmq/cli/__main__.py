"""``python -m orbitmq.cli`` is ``orbitmq``."""

from orbitmq.cli import main

main(prog_name="orbitmq")
