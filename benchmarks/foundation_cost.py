"""What does the foundation profile cost, and how much of that is ours? Prints ratios, measured in one run.

    python benchmarks/foundation_cost.py [--quick] [--sam tiny|small|base-plus|large] [--image-size N] [--frames N]

Networks of the published sizes with random weights go through `weights.add` and the very code that a user runs, on one
core. Seconds are seconds of the processor. Each part runs in a process of its own, whose peak memory is what the
system says, libraries included; "tensors" is the most that was held in tensors at a time, weights left out: what a GPU
has to hold as well. `--quick` takes tiny networks: it shows that the benchmark runs, and its ratios mean nothing.
"""

from __future__ import annotations

import os

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_DISABLE_PROGRESS_BARS="1")  # read when torch is imported

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from live_tensors import LiveTensors
from made_clips import write_clip
from random_checkpoints import HIERA, write_all
from torch.nn import functional
from transformers.models.sam2_video.modeling_sam2_video import Sam2VideoInferenceSession

from labeling import vocabulary
from labeling.config import LabelConfig, WeightChoice
from labeling.embeddings.dinov2 import Dinov2Embedder
from labeling.folder import find_videos
from labeling.masks import Mask
from labeling.pipeline import fit_vocabulary, label_video, open_run, track_video
from labeling.profiles import assemble, weights_of
from labeling.proposals import Proposal
from labeling.proposals.maskcut import MaskCutProposer, segmented
from labeling.proposals.videocutler import VideoCutLERConfig, VideoCutLERProposer
from labeling.trackers.sam_config import SamConfig
from labeling.trackers.sam_loading import load
from labeling.trackers.sam_masks import mask_of
from labeling.trackers.sam_memory import stretched
from labeling.trackers.sam_session import SamSegmenter, SamSession
from labeling.video import Video

HEIGHT, WIDTH = 480, 854
MIB = 2**20
ADAPTER, PIPELINE = 1.05, 1.15  # the most that is allowed
TURNS = 3  # of each side of a comparison
FOLLOWED = (1, 10)  # objects for which a GPU's memory is estimated
SLACK, CONTEXT = 1.5, 512  # assumed: workspaces and gaps between tensors, as a factor; what CUDA takes, in MiB
CARDS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 80, 144)  # GB of GPUs that there are


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny networks: less than a minute")
    parser.add_argument("--sam", choices=[size for size in HIERA if size != "micro"], default="small")
    parser.add_argument("--image-size", type=int, help="side of SAM's pictures: 1024, or 128 with --quick")
    parser.add_argument("--frames", type=int, default=6, help="frames of the clip")
    parser.add_argument("--objects", type=int, default=2, help="objects that are followed")
    options = parser.parse_args()
    options.image_size = options.image_size or (128 if options.quick else 1024)
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as work:
        options.work = Path(work)
        in_own_process(make, options)
        found = {part.__name__: in_own_process(part, options) for part in PARTS}
    report(found, options)


def make(options: argparse.Namespace) -> dict[str, Any]:
    """Write the weights and the clip."""
    write_all(options.work, options.sam, options.quick)
    write_clip(options.work / "clips" / "clip.mp4", options.frames, HEIGHT, WIDTH, 24, camera=0)
    return {}


class Bench:
    """The clip, the settings and the weights that all parts share."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.work, self.objects = options.work, options.objects
        self.clip = self.work / "clips" / "clip.mp4"
        self.images = [frame.image for frame in Video(self.clip).frames()]
        self.config = LabelConfig(
            profile="foundation", keep_static=True, weights=WeightChoice(folder=str(self.work / "weights")),
            videocutler=VideoCutLERConfig(top=self.objects),
            sam=SamConfig(image_size=options.image_size, max_objects=self.objects),
        )  # fmt: skip
        self.paths = {entry: found.path for entry, found in weights_of(self.config).items()}
        self.masks = [_disc(180 + 220 * number) for number in range(self.objects)]


def videocutler(options: argparse.Namespace) -> dict[str, Any]:
    """One clip of as many frames as the proposer looks at together."""
    bench = Bench(options)
    proposer = VideoCutLERProposer(bench.config.videocutler, bench.paths["videocutler"], "cpu")
    images = [bench.images[place % len(bench.images)] for place in range(bench.config.videocutler.clip)]
    network = Stopwatch(proposer.model.network, "forward")
    return looked(lambda: proposer.propose_clip(images), len(images), [proposer.model.network], network)


def maskcut(options: argparse.Namespace) -> dict[str, Any]:
    """The network on one batch, and the cuts of features that hold as many segments as may be found.

    Features of a random network hold none.
    """
    bench = Bench(options)
    config = bench.config.maskcut
    proposer = MaskCutProposer(config, bench.paths["dinov2"], "cpu")
    images = [bench.images[place % len(bench.images)] for place in range(config.batch)]
    network = Stopwatch(proposer._network._model, "forward")
    rows, depth = round(config.patches * HEIGHT / WIDTH), 384
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((1 + config.masks, depth))
    features = np.broadcast_to(directions[0], (rows, config.patches, depth)).copy()
    for number in range(config.masks):
        left = 4 + number * (config.patches // config.masks)
        features[6:14, left : left + 9] = directions[1 + number]
    features += 0.5 * rng.standard_normal(features.shape)

    def look() -> None:
        proposer._network(images, config.patches)
        found = segmented(images, np.stack([features] * len(images)), config)
        assert [len(each) for each in found] == [config.masks] * len(images)

    return looked(look, len(images), [proposer._network._model], network)


def dinov2(options: argparse.Namespace) -> dict[str, Any]:
    """One batch of frames with masks."""
    bench = Bench(options)
    embedder = Dinov2Embedder(bench.config.dinov2, bench.paths["dinov2"], "cpu")
    images = [bench.images[place % len(bench.images)].copy() for place in range(bench.config.dinov2.batch)]
    network = Stopwatch(embedder._network._model, "forward")
    masks = [bench.masks] * len(images)
    return looked(lambda: embedder.embed_frames(images, masks), len(images), [embedder._network._model], network)


def sam(options: argparse.Namespace) -> dict[str, Any]:
    """Objects followed through some frames, each in a session of its own."""
    bench = Bench(options)
    segmenter = load(bench.paths["sam2"], bench.config.sam.image_size, "cpu")
    encoding = segmenter.encode(bench.images[0])
    network = Stopwatch(segmenter.model, "forward"), Stopwatch(segmenter.model, "get_image_features")
    sessions = [segmenter.session() for _ in bench.masks]
    for session, mask in zip(sessions, bench.masks, strict=True):
        session.add(0, mask.placed(HEIGHT, WIDTH))

    def follow() -> None:
        for image in bench.images[:4]:
            encoding = segmenter.encode(image)
            for session in sessions:
                session.step(encoding)

    figures = looked(follow, len(bench.images[:4]), [segmenter.model], *network)
    kept = {tensor.untyped_storage().data_ptr(): tensor for tensor in [*encoding.features, encoding.position]}
    return figures | {
        "encoded": sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / MIB,
        "remembered": sessions[0].held_bytes() / MIB / len(bench.images[:4]),
        "reads": segmenter.model.config.num_maskmem - 1 + segmenter.conditioning,
    }


def adapter(options: argparse.Namespace) -> dict[str, Any]:
    """Our sessions and the streaming loop of transformers, by turns on the same frames and prompts.

    Pictures have half the side: what is ours weighs more there. Two figures: the fastest of several turns, as other
    programs only ever slow them down, and the median of all.
    """
    bench = Bench(options)
    segmenter = load(bench.paths["sam2"], options.image_size // 2, "cpu")
    prompts = [mask.placed(HEIGHT, WIDTH) for mask in bench.masks]
    segmenter.encode(bench.images[0])  # the first run of a network is slower than all others
    ours = [_our_loop(segmenter, prompts) for _ in range(TURNS)]
    theirs = [_their_loop(segmenter, prompts) for _ in range(TURNS)]
    spent, apart = np.zeros((2, TURNS, len(bench.images))), 0.0
    for place, image in enumerate(bench.images):
        for turn, pair in enumerate(zip(ours, theirs, strict=True)):
            found: list[list[np.ndarray]] = [[], []]
            for side in (0, 1) if (place + turn) % 2 else (1, 0):
                spent[side, turn, place], found[side] = timed(lambda loop=pair[side], i=image: loop(i))
            apart = max(apart, *(float(np.abs(one - other).max()) for one, other in zip(*found, strict=True)))
    fastest, turns = spent.min(1).sum(1), spent[0] / spent[1]
    return {"fastest": float(fastest[0] / fastest[1]), "median": float(np.median(turns)), "apart": apart}


def _our_loop(segmenter: SamSegmenter, prompts: list[np.ndarray]) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Follows objects as the tracker does, a session each; takes a picture and returns logits."""
    sessions = [segmenter.session() for _ in prompts]
    for session, prompt in zip(sessions, prompts, strict=True):
        session.add(0, prompt)

    def follow(image: np.ndarray) -> list[np.ndarray]:
        encoding = segmenter.encode(image)
        found = [session.step(encoding)[0].logits for session in sessions]
        for logits in found:
            mask_of(logits, HEIGHT, WIDTH)
        return found

    return follow


def _their_loop(segmenter: SamSegmenter, prompts: list[np.ndarray]) -> Callable[[np.ndarray], list[np.ndarray]]:
    """The same with transformers alone: one session that keeps everything, masks enlarged as its processor does."""
    model, session = segmenter.model, Sam2VideoInferenceSession(dtype=segmenter.model.dtype)
    for number, prompt in enumerate(prompts):
        mask = torch.from_numpy(stretched(prompt, segmenter.image_size))[None, None]
        session.add_mask_inputs(session.obj_id_to_idx(number), 0, mask)
        session.obj_with_new_inputs.append(number)

    def follow(image: np.ndarray) -> list[np.ndarray]:
        pixels = segmenter.pixels(image)  # its own way to do this needs torchvision
        found = model(inference_session=session, frame=pixels).pred_masks
        (functional.interpolate(found, (HEIGHT, WIDTH), mode="bilinear", align_corners=False) > 0).numpy()
        return list(found.numpy()[:, 0])

    return follow


def pipeline(options: argparse.Namespace) -> dict[str, Any]:
    """A clip from the file to its labels in a store, and the time spent inside the networks."""
    bench = Bench(options)
    config = bench.config
    loading, backends = timed(lambda: assemble(config, "cpu"))
    vocabulary.discover(np.eye(16, dtype=np.float32), config.vocabulary)  # imports, once a process
    proposer, embedder, segmenter = backends.proposer, backends.embedder, backends.tracker._segmenter
    propose = proposer.propose_clip

    def propose_discs(images: list[np.ndarray]) -> list[list[Proposal]]:
        propose(images)  # a random network finds noise, which may or may not be followed
        return [[Proposal(mask, 0.9) for mask in bench.masks] for _ in images]

    proposer.propose_clip = propose_discs
    watches = {
        "VideoCutLER": (Stopwatch(proposer.model.network, "forward"), Stopwatch(proposer, "propose_clip")),
        "DINOv2": (Stopwatch(embedder._network._model, "forward"), Stopwatch(embedder, "embed_frames")),
        "SAM, encoding": (Stopwatch(segmenter.model, "get_image_features"), Stopwatch(segmenter, "encode")),
        "SAM, following": (Stopwatch(segmenter.model, "forward"), Stopwatch(SamSession, "step")),
    }
    source = find_videos(bench.clip).sources[0]
    store = open_run(bench.work / "labels.zarr", bench.clip.parent, config)

    def label() -> None:
        track_video(store, source, config, "cpu")
        label_video(store, source, config, fit_vocabulary(store, [source], config))

    total, _ = timed(label)
    rows = {
        name: (inner.calls, inner.seconds, outer.seconds - inner.seconds) for name, (inner, outer) in watches.items()
    }
    return {"rows": rows, "total": total, "loading": loading}


PARTS = (videocutler, maskcut, dinov2, sam, adapter, pipeline)


class Stopwatch:
    """Counts the calls of an object's method and the seconds they take."""

    def __init__(self, owner: Any, method: str) -> None:
        self.calls, self.seconds = 0, 0.0
        inner = getattr(owner, method)

        def watched(*arguments: Any, **options: Any) -> Any:
            seconds, result = timed(lambda: inner(*arguments, **options))
            self.calls, self.seconds = self.calls + 1, self.seconds + seconds
            return result

        setattr(owner, method, watched)


def looked(work: Callable[[], object], frames: int, networks: list[Any], *watches: Stopwatch) -> dict[str, Any]:
    """Seconds a frame of some work, those inside the networks, and MiB of weights and of other tensors."""
    weights = sum(tensor.numel() * tensor.element_size() for one in networks for tensor in one.state_dict().values())
    with LiveTensors() as live:
        seconds, _ = timed(work)
    inside = sum(watch.seconds for watch in watches)
    return {
        "seconds": seconds / frames, "network": inside / frames, "weights": weights / MIB, "tensors": live.most / MIB
    }  # fmt: skip


def in_own_process(part: Callable[[argparse.Namespace], dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """What a part finds in a new process, with the memory that it began with and that it had at most."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(_measured, (part, options))


def _measured(part: Callable[[argparse.Namespace], dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    return {"libraries": peak_memory(), **part(options), "peak": peak_memory()}


def peak_memory() -> float:
    """The most memory that this process ever had, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor that `work` takes, and what it returns."""
    began = time.process_time()
    result = work()
    return time.process_time() - began, result


def report(found: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """Print all figures."""
    size = "micro" if options.quick else options.sam
    print(f"{WIDTH}x{HEIGHT}, one core; SAM 2.1 {size} at {options.image_size} px, {options.objects} objects\n")
    print(f"{'':22s}{'s a frame':>10s}{'network':>10s}{'peak MiB':>10s}{'weights':>10s}{'tensors':>10s}")
    names = {
        "videocutler": "VideoCutLER, a look", "maskcut": "MaskCut, a look", "dinov2": "DINOv2, a look",
        "sam": "SAM, every frame",
    }  # fmt: skip
    for part, name in names.items():
        one = found[part]
        print(f"{name:22s}{one['seconds']:10.2f}{one['network']:10.2f}", end="")
        print(f"{one['peak']:10.0f}{one['weights']:10.0f}{one['tensors']:10.0f}")
    whole = found["pipeline"]
    networks = sum(inside for _, inside, _ in whole["rows"].values())
    print(f"{'the whole profile':22s}{whole['total'] / options.frames:10.2f}", end="")
    print(f"{networks / options.frames:10.2f}{whole['peak']:10.0f}")
    print(f"{'libraries alone':42s}{whole['libraries']:10.0f}")
    _report_gpu(found)
    _report_ratios(found["adapter"], whole, options.frames)


def _report_gpu(found: dict[str, dict[str, Any]]) -> None:
    """The rows of `held` and their sums, for few objects and for many."""
    tables = [held(found, objects) for objects in FOLLOWED]
    print(f"\n{'held at a time, MiB':32s}" + "".join(f"{f'{objects} objects':>12s}" for objects in FOLLOWED))
    for name in tables[0]:
        print(f"{name:32s}" + "".join(f"{table[name]:12d}" for table in tables))
    sums = [sum(table.values()) for table in tables]
    print(f"{'all, in float32':32s}" + "".join(f"{total:12d}" for total in sums))
    enough = [next(size for size in CARDS if 1024 * size >= SLACK * total + CONTEXT) for total in sums]
    print(f"{'a GPU that is enough, GB':32s}" + "".join(f"{size:12d}" for size in enough))
    print(f"not measured: {SLACK} times the sum, and {CONTEXT} MiB for CUDA itself")


def held(found: dict[str, dict[str, Any]], objects: int) -> dict[str, int]:
    """What the profile's networks have to hold at a time: all weights, what is remembered, and who works then."""
    tracker, window = found["sam"], SamConfig().window
    proposing = {"VideoCutLER's tensors": round(found["videocutler"]["tensors"])}
    following = {
        f"SAM's window of {window} frames": round(window * tracker["encoded"]),
        "SAM's or DINOv2's tensors": round(max(found["dinov2"]["tensors"], tracker["tensors"])),
    }
    busiest = max(proposing, following, key=lambda work: sum(work.values()))
    return {
        "all weights": sum(round(found[part]["weights"]) for part in ("videocutler", "dinov2", "sam")),
        "objects, forward and backward": round(2 * objects * tracker["reads"] * tracker["remembered"]),
        **busiest,
    }


def _report_ratios(adapter: dict[str, Any], whole: dict[str, Any], frames: int) -> None:
    print(f"\n{'inside the pipeline':22s}{'calls':>10s}{'network s':>10s}{'around it, ms a frame':>24s}")
    networks = adapters = 0.0
    for name, (calls, inside, around) in whole["rows"].items():
        networks, adapters = networks + inside, adapters + around
        print(f"{name:22s}{calls:10d}{inside:10.2f}{1000 * around / frames:24.1f}")
    rest = whole["total"] - networks - adapters
    print(f"{'all else':22s}{'':10s}{'':10s}{1000 * rest / frames:24.1f}")
    print(f"loading the networks, once a process: {whole['loading']:.1f} s")
    print(
        f"\nour SAM sessions over transformers' streaming loop: {adapter['fastest']:.3f}, at most {ADAPTER} "
        f"(median of all turns {adapter['median']:.3f}; logits differ by {adapter['apart']:.1e} at most)"
    )
    print(f"the pipeline over the sum of its networks: {whole['total'] / networks:.3f}, at most {PIPELINE}")


def _disc(x: int) -> Mask:
    coverage = cv2.circle(np.zeros((HEIGHT, WIDTH), np.uint8), (x, HEIGHT // 2), 60, 255, -1)
    mask = Mask.cut(coverage)
    assert mask is not None
    return mask


if __name__ == "__main__":
    main()
