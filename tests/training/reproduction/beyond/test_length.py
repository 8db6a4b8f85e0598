"""The table of three white balls, trained longer."""

from __future__ import annotations

import pytest

from training.reproduction.beyond.length import table
from training.reproduction.scale import Scale
from training.reproduction.scales import CPU, PAPER
from training.reproduction.tables import build


@pytest.mark.parametrize("scale", [CPU, PAPER])
def test_rows_differ_in_length_and_columns_in_the_head_alone(scale: Scale) -> None:
    short, longer, _ = table(scale).rows
    head, plain = (longer.entries[column].trainings[0] for column in (0, 1))
    without = head.config().objective.model_copy(update={"encoded_weight": 0.0, "predicted_weight": 0.0})
    assert plain.config() == head.config().model_copy(update={"objective": without})
    for before, after in zip(short.entries, longer.entries, strict=True):
        lengths = {"steps": before.trainings[0].config().steps, "epochs": before.trainings[0].config().epochs}
        assert after.trainings[0].config().model_copy(update=lengths) == before.trainings[0].config()
        assert after.trainings[0].data == before.trainings[0].data


def test_the_first_row_is_that_of_the_papers_table() -> None:
    there = {cell.training.id for cell in build("nball-success").cells}
    assert {run.id for entry in table(CPU).rows[0].entries for run in entry.trainings} < there


def test_labels_say_how_long_it_was_trained() -> None:
    assert [row.label for row in table(CPU).rows] == ["3,000 steps", "14,400 steps", "random actions"]
    assert table(PAPER).rows[0].label == "200 epochs"
    assert table(CPU).minutes(2) <= 180
    assert {cell.minutes for cell in table(PAPER).cells} == {0}  # nobody has timed it
