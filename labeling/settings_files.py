"""How does what a user wrote become settings?

A YAML file and `key=value` pairs as one tree, and what is wrong with a tree in words. Labeling and training have models
of their own for what may be in it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from labeling.problems import in_short

MOST = 4  # problems that are named at once
LONGEST = 200  # signs of each


class ConfigError(ValueError):
    """Settings that cannot be used; the message says which and why."""


def read_settings(file: Path | None, settings: list[str], example: str) -> dict[str, Any]:
    """The tree of a YAML file with `settings` like `filters.min_frames=3` on top; `example` is shown to who errs."""
    data: dict[str, Any] = {}
    if file is not None:
        data = read_yaml(file) or {}
        if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
            raise ConfigError(f"{file} must hold settings like `{example.replace('=', ': ')}`, one a line.")
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set {setting}: write it as key=value, for example {example}.")
        try:
            parsed = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise ConfigError(f"--set {setting}: {value} is not a value. Write it as in {example}.") from error
        _put(data, key.strip().split("."), parsed, setting)
    return data


def read_yaml(file: Path) -> Any:
    """What a YAML file holds: plain values, never objects; ConfigError if it is none."""
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.") from error
    except RecursionError as error:
        raise ConfigError(f"{file} is not valid YAML: its values are nested too deep.") from error
    except (yaml.YAMLError, ValueError) as error:  # numbers of 5,000 digits and the 31st of June are ValueErrors
        raise ConfigError(f"{file} is not valid YAML: {in_short(error)}") from error


def plainly(error: ValidationError, command: str) -> ConfigError:
    """What a model refused, in words; `command` prints all settings."""
    return ConfigError(listed([_problem(dict(problem), command) for problem in error.errors()]))


def listed(problems: list[str]) -> str:
    """The first few problems, and how many there are beyond."""
    more = [f"and {len(problems) - MOST} more"] if len(problems) > MOST else []
    return "; ".join([*(problem[:LONGEST] for problem in problems[:MOST]), *more])


def _problem(problem: dict[str, Any], command: str) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"there is no setting {name}; `{command}` prints all of them"
    if problem["type"] == "literal_error":
        return f"there is no {name} {problem['input']!r}; choose from {problem['ctx']['expected']}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{name}: {message}" if name else message


def _put(data: dict[str, Any], keys: list[str], value: Any, setting: str) -> None:
    for key in keys[:-1]:
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise ConfigError(f"--set {setting}: {key} is a value, not a group of settings.")
    data[keys[-1]] = value
