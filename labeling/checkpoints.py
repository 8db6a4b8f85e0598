"""Which checkpoints do we know, where do they come from, and under which licence?

`KNOWN` lists them by the name that settings and `spectrabox weights` use. A name with a slash is a repository of the
Hugging Face hub; any other repository of that kind may be named too. `weight_files` says which files of a repository
or folder make up a checkpoint: its configuration and its safetensors, never a pickle.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

APACHE = "Apache-2.0"
HUB = "https://huggingface.co/"
WANTED = re.compile(r"config\.json|model(-\d+-of-\d+)?\.safetensors|model\.safetensors\.index\.json")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class WeightsError(OSError):
    """Weights are missing, damaged or unusable; the message names them and says what to do."""


@dataclass(frozen=True)
class Checkpoint:
    """One published set of weights.

    Sizes are approximate. `sha256` is empty where nobody published one: then the first download is recorded and
    everything later is compared with it. Files of the hub carry hashes of their own, which are always checked.
    """

    name: str
    what: str
    licence: str
    megabytes: int = 0
    file: str = ""  # the one file of a plain download; empty: `name` is a repository of the hub
    url: str = ""
    page: str = ""
    sha256: str = ""
    revision: str = ""  # a commit of the repository; empty: its main branch, written down when it is fetched
    gated: bool = False

    @property
    def home(self) -> str:
        """The page where a person reads about it and accepts its licence."""
        return self.page or HUB + self.name

    @property
    def size(self) -> str:
        """Its size in words."""
        if not self.megabytes:
            return "unknown"
        return f"about {self.megabytes / 1000:.1f} GB" if self.megabytes >= 1000 else f"about {self.megabytes} MB"


# The share link of the project's README, as a direct download: Drive asks for a confirmation otherwise.
_VIDEOCUTLER = (
    "https://drive.usercontent.google.com/download?id=11TACB8tOaAc-eXBo_i2arR_7qgGSeXRg&export=download&confirm=t"
)

_META = "https://dl.fbaipublicfiles.com/segment_anything_2/092824/"

# The main branches of the DINO /16 repositories hold a pickle only: these commits are the hub's own conversions of it.
_COMMITS = {
    "dinov2-small": "ed25f3a31f01632728cabb09d1542f84ab7b0056",
    "dino-vits8": "483f2fc47097ae6f0afc8bcfb43004224bddeae2",
    "dino-vits16": "a7a4d161f5c0bd70478c05ca5777ec7cd8848021",
    "dino-vitb16": "a77533c84408875b30b5e8beb766c82a5be82bf4",
}

_TABLE = (
    Checkpoint(
        "videocutler", "VideoCutLER proposals (ResNet-50)", "CC BY-NC-SA 4.0, non-commercial use only", 176,
        "videocutler_m2f_rn50.pth", _VIDEOCUTLER, "https://github.com/facebookresearch/CutLER/tree/main/videocutler",
    ),
    Checkpoint("facebook/dinov2-small", "DINOv2 ViT-S/14", APACHE, 88, revision=_COMMITS["dinov2-small"]),
    Checkpoint("facebook/dinov2-base", "DINOv2 ViT-B/14", APACHE, 346),
    Checkpoint("facebook/dinov2-large", "DINOv2 ViT-L/14", APACHE, 1220),
    Checkpoint("facebook/dinov2-with-registers-small", "DINOv2 ViT-S/14 with registers", APACHE, 88),
    Checkpoint("facebook/dinov2-with-registers-base", "DINOv2 ViT-B/14 with registers", APACHE, 346),
    Checkpoint("facebook/dinov2-with-registers-large", "DINOv2 ViT-L/14 with registers", APACHE, 1220),
    Checkpoint("facebook/dino-vits8", "DINO ViT-S/8", APACHE, 87, revision=_COMMITS["dino-vits8"]),
    Checkpoint("facebook/dino-vits16", "DINO ViT-S/16", APACHE, 87, revision=_COMMITS["dino-vits16"]),
    Checkpoint("facebook/dino-vitb8", "DINO ViT-B/8", APACHE, 343),
    Checkpoint("facebook/dino-vitb16", "DINO ViT-B/16", APACHE, 343, revision=_COMMITS["dino-vitb16"]),
    Checkpoint("facebook/sam2.1-hiera-tiny", "SAM 2.1 tracker, tiny", APACHE, 156),
    Checkpoint("facebook/sam2.1-hiera-small", "SAM 2.1 tracker, small", APACHE, 184),
    Checkpoint("facebook/sam2.1-hiera-base-plus", "SAM 2.1 tracker, base plus", APACHE, 323),
    Checkpoint("facebook/sam2.1-hiera-large", "SAM 2.1 tracker, large", APACHE, 898),
    *(
        Checkpoint(
            f"sam2.1_hiera_{size}.pt", f"SAM 2.1 for sam2-native, {size}", APACHE, megabytes,
            f"sam2.1_hiera_{size}.pt", f"{_META}sam2.1_hiera_{size}.pt", "https://github.com/facebookresearch/sam2",
        )
        for size, megabytes in {"tiny": 156, "small": 184, "base_plus": 324, "large": 898}.items()
    ),
    Checkpoint("facebook/sam3", "SAM 3 tracker", "SAM License (Meta), gated", 3440, gated=True),
    Checkpoint("yonigozlan/EdgeTAM-hf", "EdgeTAM tracker (needs timm)", APACHE, 56),
)  # fmt: skip

KNOWN: dict[str, Checkpoint] = {checkpoint.name: checkpoint for checkpoint in _TABLE}


def on_the_hub(name: str) -> Checkpoint:
    """A repository of the hub that is not in the table: its page says what it is and how it is licensed."""
    return Checkpoint(name, "a model of the hub", f"see {HUB}{name}")


def licence_of(name: str) -> str:
    """The licence of weights by name, as far as it is known."""
    return KNOWN[name].licence if name in KNOWN else "not known here"


def weight_files(names: Iterable[str], where: str) -> list[str]:
    """The files, of those at hand, that make up a checkpoint, sorted; complains if they do not."""
    at_hand = set(names)
    wanted = sorted(name for name in at_hand if WANTED.fullmatch(name))
    if not any(name.endswith(".safetensors") for name in wanted):
        pickles = sorted(name for name in at_hand if name.endswith(PICKLES))
        if pickles:
            raise WeightsError(
                f"{where} holds {', '.join(pickles)} and no model.safetensors. A pickle can run foreign code when "
                "loaded, so it is refused: load the model where you trust it, then `model.save_pretrained(FOLDER)`."
            )
        raise WeightsError(f"{where} holds no model.safetensors: it is not a folder of weights.")
    if "config.json" not in wanted:
        raise WeightsError(f"{where} holds weights but no config.json, which says what network they belong to.")
    return wanted
