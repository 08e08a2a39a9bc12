"""The read path: pulls, their filters, held pulls and the lag of groups."""
