"""Every frame is proposed on once and in order, whether it came along with the scan or is decoded again."""

from pathlib import Path

import pytest

from labeling.proposals.motion import MotionProposer
from labeling.scan import scan
from labeling.video import Video
from tests.labeling.test_scan import scenery, shots, view


@pytest.mark.parametrize("kept", [0, 100_000_000])
def test_still_and_moving_shots_give_every_frame_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr("labeling.scan.KEPT_BYTES", kept)
    still, moving = scenery(1, (60, 90, 60)), scenery(2, (150, 110, 90))
    pictures = [view(still)] * 40 + [view(moving, 3 * t) for t in range(60)] + [view(still)] * 30
    shots(tmp_path / "v", pictures)
    video = Video(tmp_path / "v")
    found = list(MotionProposer().propose(video, scan(video)))
    assert [item.frame.index for item in found] == list(range(130))
    assert [item.frame.index for item in found if item.cut] == [0, 40, 100]
