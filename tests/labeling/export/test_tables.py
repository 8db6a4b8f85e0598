"""CSV and Parquet: read back by pandas."""

from __future__ import annotations

import json
from pathlib import Path

import pandas
import pytest
from pyarrow import parquet

from labeling.export import ExportConfig, export
from labeling.store import Store
from tests.labeling.export.conftest import CONFIG, LICENCE, same, truth


def read(path: Path) -> pandas.DataFrame:
    return pandas.read_csv(path) if path.suffix == ".csv" else pandas.read_parquet(path)


def boxes_of(table: pandas.DataFrame) -> dict:
    keys = zip(table["source"], table["frame"], table["instance"], strict=True)
    return dict(zip(keys, table[["x1", "y1", "x2", "y2"]].to_numpy("float32"), strict=True))


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_every_box_is_found_again_to_the_last_bit(store: Store, tmp_path: Path, format: str) -> None:
    table = read(export(store, format, tmp_path / f"labels.{format}", CONFIG).path)
    same(boxes_of(table), truth(store), within=0)
    whole = store.to_pandas()
    for name in ("time", "score", "mass_x", "oriented_theta", "prominence", "frame", "category"):
        assert (table[name].to_numpy(whole[name].dtype) == whole[name].to_numpy()).all(), name
    assert table.groupby("split")["source"].nunique().to_dict() == {"train": 2, "val": 1}
    assert set(table["name"]) == {"object-1", "unassigned"}


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_what_was_dropped_comes_with_a_mark(store: Store, tmp_path: Path, format: str) -> None:
    table = read(export(store, format, tmp_path / f"labels.{format}", ExportConfig(dropped=True)).path)
    same(boxes_of(table), truth(store, dropped=True), within=0)
    assert table.groupby("instance")["kept"].first().to_dict() == {1: True, 2: True, 7: False}


def test_licence_and_videos_go_along(store: Store, tmp_path: Path) -> None:
    made = export(store, "csv", tmp_path / "labels.csv", CONFIG)
    beside = json.loads((tmp_path / "labels.csv.json").read_text())
    made = export(store, "parquet", tmp_path / "labels.parquet", CONFIG)
    within = json.loads(parquet.read_schema(made.path).metadata[b"spectrabox"])
    for facts in (beside, within):
        assert facts["licence_of_videos"] == LICENCE
        assert [row["sha256"] for row in facts["videos"]] == [v.attributes["sha256"] for v in store.values()]


def test_names_with_commas_and_quotes_stay_whole(make_store, tmp_path: Path) -> None:
    store = make_store('a, "b".mp4', videos=False)
    table = read(export(store, "csv", tmp_path / "labels.csv").path)
    assert set(table["source"]) == {'a, "b".mp4'}
