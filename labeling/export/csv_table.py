"""Labels as CSV: a row for every box.

The columns are those of `to_pandas`, with `source` and `split`, and with `kept` where dropped tracks were asked for.
What a table has no place for is in a file beside it, `labels.csv.json`: licence, categories, videos, where it is from.
"""

from __future__ import annotations

import csv
from pathlib import Path

from labeling.export.job import Job
from labeling.export.rows import rows_of


def write(job: Job, out: Path) -> None:
    """Write all labels to the file `out`."""
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, columns in enumerate(rows_of(job)):
            if not number:
                writer.writerow(columns)
            # Numbers of float32 in as few digits as tell them from their neighbours.
            writer.writerows(zip(*(map(str, column) for column in columns.values()), strict=True))
