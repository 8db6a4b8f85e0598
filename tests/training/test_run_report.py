"""The report of a run shows names as they are, whatever Markdown would make of them."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

from markdown_it import MarkdownIt

from tests.training.tiny_run import tiny_config, tiny_dataset
from training.run_report import write_report
from training.trainer import train

NAMES = ("<script>alert(1)</script> | `a` & [b](c)", "*_~# &lt; $x$ \\\nline")


def test_names_make_no_markup_and_no_columns(tmp_path: Path) -> None:
    dataset = tiny_dataset(tmp_path / "d.zarr", names=NAMES)
    run = tmp_path / "<b>run_*1*"
    train(dataset, run, tiny_config(steps=5))
    render = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render
    html = render(write_report(run).read_text(encoding="utf-8"))
    assert not re.search("<(script|b|em|strong|s|code)>|<a ", html)
    assert "<h1>&lt;b&gt;run_*1*</h1>" in html
    shown = [unescape(cell) for cell in re.findall("<td>(.*?)</td>", html)]
    plain = [" ".join(name.split()) for name in NAMES]
    assert shown[14::2] == [
        *(f"R² of the position, {name}" for name in plain),
        *(f"Spearman of distances, {name}" for name in plain),
    ]
    assert f"kinds of objects: {', '.join(plain)}." in unescape(html)
