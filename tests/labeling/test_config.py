"""Settings from files and the command line are typed; nonsense is refused with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeling.config import LabelConfig, as_yaml, load_config
from labeling.settings_files import ConfigError


def test_file_then_setting_then_value(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("keep_static: true\nfilters:\n  min_frames: 9\n  min_area: 20\n")
    config = load_config(file, ["filters.min_frames=2"], longest_side=500)
    assert config.keep_static
    assert (config.filters.min_frames, config.filters.min_area, config.longest_side) == (2, 20, 500)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["filters.min_frame=2"], "filters.min_frame"),
        (["keep_static=perhaps"], "keep_static"),
        (["filters.overlap=7"], "filters.overlap"),
        (["keep_static"], "key=value"),
        (["keep_static.deep=1", "keep_static.deep.er=2"], "not a group"),
        (["profile=imaginary"], "no profile 'imaginary'"),
    ],
)
def test_nonsense_is_named(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(settings=settings)


@pytest.mark.parametrize("text", ["[1, 2", "- a\n- b", "!!python/object/apply:os.system ['true']"])
def test_files_that_are_no_settings_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"settings\.yaml"):
        load_config(file)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load_config(tmp_path / "nowhere.yaml")


def test_printed_settings_are_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(as_yaml())
    assert load_config(file) == LabelConfig()
    assert "# Also label objects that stand still the whole time.\nkeep_static: false" in as_yaml()
