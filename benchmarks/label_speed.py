"""How fast is labeling, and how much memory does it take? Prints ratios, measured in one run on this machine.

    python benchmarks/label_speed.py [--quick] [--clip FILE ...]

Everything but the two-worker figure runs on one core and is timed by that core, so that other programs hardly count;
stages of a clip are timed three times, and the least counts.
The rival at 854x480 is OpenCV's DIS optical flow (medium preset) alone, on the same frames at half size; the limits are
decoding alone and the time that the clip takes to play.
`--clip` measures clips of yours in place of the ones made here.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
from made_clips import write_clip

from labeling.config import LabelConfig
from labeling.folder import find_videos
from labeling.isolation import Worker
from labeling.jobs import Job
from labeling.pipeline import fit_vocabulary, label_video, open_run, track_video
from labeling.profiles import assemble
from labeling.run import label_folder
from labeling.scan import scan
from labeling.video import Video


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shorter clips: minutes become seconds, figures rougher")
    parser.add_argument("--clip", type=Path, action="append", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        cv2.setNumThreads(1)
        for clip in arguments.clip or made(folder / "speed", arguments.quick):
            speed(clip, folder)
        memory(folder, 300 if arguments.quick else 3000)
        linear(folder)
        os.sched_setaffinity(0, cores)
        workers(folder, 4 if arguments.quick else 8)


def made(folder: Path, quick: bool) -> list[Path]:
    """Clips of the two sizes that the figures are promised for."""
    frames = 48 if quick else 150
    return [
        write_clip(folder / "moving camera 854x480.mp4", frames, 480, 854, 24, camera=3),
        write_clip(folder / "still camera 854x480.mp4", frames, 480, 854, 24, camera=0),
        write_clip(folder / "still camera 224x224.mp4", 2 * frames, 224, 224, 25, camera=0),
        write_clip(folder / "moving camera 224x224.mp4", 2 * frames, 224, 224, 25, camera=1.5),
    ]


def speed(clip: Path, folder: Path) -> None:
    """Time every stage of one clip on one core, and compare."""
    config = LabelConfig()
    video = Video(clip)
    source = find_videos(clip).sources[0]
    backends = assemble(config, "cpu")
    store = open_run(folder / f"{clip.stem}.zarr", clip.parent, config)
    frames = sum(1 for _ in video.frames())
    decode = best(lambda: sum(1 for _ in video.frames()))
    scanned = best(lambda: sum(1 for _ in scan(video, config.scan)))
    proposed = best(lambda: sum(1 for _ in backends.proposer.propose(video, scan(video, config.scan))))
    tracked = best(
        lambda: sum(
            1
            for _ in backends.tracker.track(
                backends.proposer.propose(video, scan(video, config.scan)), backends.embedder, video
            )
        )
    )
    stored = best(lambda: track_video(store, source, config))
    words = fit_vocabulary(store, [source], config)
    labeled = best(lambda: label_video(store, source, config, words))
    total, plays = stored + labeled, frames / video.fps
    flow = min(dis_flow(video) for _ in range(3))
    print(f"\n{clip.stem}: {frames} frames at {video.fps:g} fps, milliseconds a frame")
    stages = {
        "scan (with a decode)": scanned, "proposals (with a decode)": proposed - scanned,
        "embeddings and tracking": tracked - proposed, "boxes, masks, store": stored - tracked,
        "categories, filters, labels": labeled,
    }  # fmt: skip
    for name, seconds in stages.items():
        print(f"  {name:28s} {1000 * seconds / frames:7.2f}")
    print(f"  {'decode to store':28s} {1000 * total / frames:7.2f}")
    print(f"  {total / flow:5.2f} times DIS medium at half size ({1000 * flow / frames:.2f} ms)")
    print(f"  {total / decode:5.2f} times decoding alone ({1000 * decode / frames:.2f} ms)")
    print(f"  {plays / total:5.2f} times faster than it plays")


def dis_flow(video: Video) -> float:
    """Seconds that DIS flow takes between all consecutive frames at half size, decoding left out."""
    dis, seconds, last = cv2.DISOpticalFlow_create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM), 0.0, None
    for frame in video.frames():
        grey = cv2.cvtColor(
            cv2.resize(frame.image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2GRAY
        )
        if last is not None:
            began = time.process_time()
            dis.calc(last, grey, None)
            seconds += time.process_time() - began
        last = grey
    return seconds


def memory(folder: Path, longest: int) -> None:
    """Peak memory of a long clip over that of one a tenth as long."""
    print()
    for camera, name in ((0.0, "still"), (3.0, "moving")):
        peaks = []
        for frames in (longest // 10, longest):
            clip = write_clip(folder / "memory" / f"{name} {frames}.mp4", frames, 240, 426, 24, camera)
            peaks.append(_peak_memory(clip, folder))
        print(
            f"peak memory, {name} camera: {peaks[1]:.0f} MiB for {longest} frames, {peaks[0]:.0f} MiB for "
            f"{longest // 10}: ratio {peaks[1] / peaks[0]:.2f}"
        )


def _peak_memory(clip: Path, folder: Path) -> float:
    """MiB that a worker process takes at most to label a clip."""
    config, out = LabelConfig(), folder / f"peak {clip.stem}.zarr"
    store, source, worker = open_run(out, clip.parent, config), find_videos(clip).sources[0], Worker()
    worker.run(Job("track", out, source, config, "cpu"))
    fit_vocabulary(store, [source], config)
    worker.run(Job("label", out, source, config, "cpu"))
    status = Path(f"/proc/{worker.start().pid}/status").read_text()
    worker.close()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def linear(folder: Path) -> None:
    """Time a frame of clips that are two and four times as long."""
    times = []
    for frames in (150, 300, 600):
        clip = write_clip(folder / "linear" / f"{frames}.mp4", frames, 224, 224, 25, camera=0)
        store = open_run(folder / f"linear-{frames}.zarr", clip.parent, LabelConfig())
        source = find_videos(clip).sources[0]
        times.append(timed(lambda s=source, o=store: track_video(o, s, LabelConfig())) / frames)
    print(
        f"\ntime a frame of 300 and 600 frames over that of 150: {times[1] / times[0]:.2f}, {times[2] / times[0]:.2f}"
    )


def workers(folder: Path, count: int) -> None:
    """Two worker processes on two cores against one."""
    videos = folder / "workers"
    for number in range(count):
        write_clip(videos / f"{number}.mp4", 240, 240, 426, 24, camera=0 if number % 2 else 3)
    one = timed(lambda: label_folder(videos, folder / "one.zarr", workers=1), time.perf_counter)
    two = timed(lambda: label_folder(videos, folder / "two.zarr", workers=2), time.perf_counter)
    print(f"\n{count} videos: two workers are {one / two:.2f} times as fast as one ({one:.1f} s, {two:.1f} s)")


def best(work: Callable[[], object]) -> float:
    """Seconds that `work` takes on its core, the least of three times: the rest is other programs' doing."""
    return min(timed(work) for _ in range(3))


def timed(work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds that `work` takes on its core."""
    began = clock()
    work()
    return clock() - began


if __name__ == "__main__":
    main()
