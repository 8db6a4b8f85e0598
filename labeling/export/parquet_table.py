"""Labels as Parquet: a row for every box, typed and compressed.

The columns are those of the CSV. Licence, categories, videos and where it comes from are in the metadata of the file,
under `spectrabox`, as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

from labeling.export.job import Job
from labeling.export.packages import needed
from labeling.export.rows import rows_of

WORDS = ("video", "name", "source", "split")  # few texts, each many times


def write(job: Job, out: Path) -> None:
    """Write all labels to the file `out`."""
    arrow, parquet = needed("pyarrow", "parquet"), needed("pyarrow.parquet", "parquet")
    writer = None
    try:
        for columns in rows_of(job):
            text = arrow.string()
            table = arrow.table(
                {
                    name: arrow.array(values, text).dictionary_encode() if name in WORDS else arrow.array(values)
                    for name, values in columns.items()
                }
            )
            if writer is None:
                note = json.dumps(job.provenance()).encode()
                writer = parquet.ParquetWriter(
                    out, table.schema.with_metadata({"spectrabox": note}), compression="zstd"
                )
            writer.write_table(table.cast(writer.schema))
    finally:
        if writer is not None:
            writer.close()
