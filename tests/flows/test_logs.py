"""What a process that carries out runs prints."""

from __future__ import annotations

import io
import logging

from flows.logs import RunLines


def printed(name: str, level: int, message: str, error: Exception | None = None, **extra: str) -> str:
    """What is printed of one message."""
    handler = RunLines(io.StringIO())
    cause = (type(error), error, None) if error else None
    record = logging.LogRecord(name, level, __file__, 1, message, (), cause)
    record.__dict__.update(extra)
    handler.handle(record)
    return handler.stream.getvalue()  # type: ignore[attr-defined]  # a StringIO


def test_a_run_is_a_line_when_it_starts_and_one_when_it_ends() -> None:
    of = {"flow_name": "label-videos", "flow_run_name": 'label "my" videos'}
    for message in ("Beginning flow run 'x' for flow 'label-videos'", "Finished in state Completed()"):
        line = printed("prefect.flow_runs", logging.INFO, message, **of)
        assert f'level=info flow=label-videos run="label \\"my\\" videos" message="{message}"\n' in line
    for message in ("View at http://127.0.0.1:4200", "Finished in state Running()"):
        assert printed("prefect.flow_runs", logging.INFO, message, **of) == ""


def test_others_are_heard_when_something_is_wrong() -> None:
    assert printed("httpx", logging.INFO, "HTTP Request: GET http://127.0.0.1") == ""
    assert printed("prefect.task_runs", logging.INFO, "Finished in state Completed()") == ""
    line = printed("asyncio", logging.ERROR, "Task exception\nwas never retrieved", ValueError("odd"))
    assert line.count("\n") == 1
    assert line.endswith("""level=error message="Task exception\\nwas never retrieved" error="ValueError('odd')"\n""")


def test_an_exception_of_a_run_is_said_once() -> None:
    assert printed("prefect.flow_runs", logging.ERROR, "Encountered exception", ValueError("odd")) == ""
    assert "odd" in printed("prefect.flow_runs", logging.INFO, "Finished in state Failed('odd')")
