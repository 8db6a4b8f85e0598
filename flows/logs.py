"""What does a process that carries out deployments print? One line when a run starts, one when it ends, and problems.

Lines are `key=value` pairs. Everything else, with tracebacks, is in the log of the run on Prefect's page. Prefect makes
the handler in each process by its name, from the environment.
"""

from __future__ import annotations

import json
import logging
import re
from typing import Any, TextIO

CONSOLE = {"PREFECT_LOGGING_HANDLERS_CONSOLE_CLASS": "flows.logs.RunLines"}
RUNS = ("prefect.flow_runs", "prefect.task_runs")
TURNS = ("Beginning flow run", "Finished in state", "Flow run was cancelled")
CANCELLED = "Finished in state Running"  # what Prefect says of a run whose end another process writes down


class RunLines(logging.StreamHandler[TextIO]):
    """In place of Prefect's handler for the terminal."""

    def __init__(self, stream: TextIO | None = None, styles: dict[str, str] | None = None) -> None:
        super().__init__(stream)

    def filter(self, record: logging.LogRecord) -> bool:
        """Starts and ends of flow runs, and warnings; an exception is said by the state in which its run ends."""
        if record.levelno >= logging.WARNING:
            return not (record.name in RUNS and record.exc_info)
        message = record.getMessage()
        return record.name == RUNS[0] and message.startswith(TURNS) and not message.startswith(CANCELLED)

    def format(self, record: logging.LogRecord) -> str:
        """A line, without a traceback."""
        words: dict[str, Any] = {
            "time": logging.Formatter().formatTime(record, "%Y-%m-%dT%H:%M:%S"),
            "level": record.levelname.lower(),
            "flow": getattr(record, "flow_name", None),
            "run": getattr(record, "flow_run_name", None),
            "task": getattr(record, "task_run_name", None),
            "message": record.getMessage(),
            "error": repr(record.exc_info[1]) if record.exc_info else None,
        }
        return " ".join(f"{key}={_quoted(value)}" for key, value in words.items() if value)


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"[\w./:-]+", value) else json.dumps(value, ensure_ascii=False)
