"""What did people change about the labels?

Edits are an overlay: the automatic labels stay as they are, a log beside them says who changed what and when
(`edits.py`, `log.py`), and whoever opens the store gets the outcome (`outcome.py`, `view.py`). `spectrabox review` is a
page to make them with (`desk.py`, `server.py`).
"""
