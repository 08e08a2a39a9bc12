"""The two ways to carry out a flow's wishes: blocking and awaiting."""
