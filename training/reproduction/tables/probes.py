"""What can be read off latents, by a linear map and by a small network?"""

from __future__ import annotations

from training.reproduction.cells import Training
from training.reproduction.judge import EVERYTHING
from training.reproduction.scale import Scale
from training.reproduction.table import Column, Entry, Row, Table
from training.reproduction.tables import environments, nball_success

NAME = "probes"
FIGURES = ("linear error", "linear r", "network error", "network r")
Numbers = tuple[float, float, float, float, float, float, float, float]

# World and quantity, as the paper calls it: what we call it, and the paper's numbers, with the head and without it for
# each of the figures.
PAPER: dict[str, dict[str, tuple[str, Numbers]]] = {
    "push-t": {
        "full state": (EVERYTHING, (0.02998, 0.05672, 0.98484, 0.97108, 0.00576, 0.00547, 0.99714, 0.99729)),
        "pusher XY": ("pusher location", (0.02203, 0.05629, 0.98900, 0.97160, 0.00981, 0.01014, 0.99515, 0.99500)),
        "T-block XY": ("block location", (0.01568, 0.02598, 0.99224, 0.98711, 0.00123, 0.00108, 0.99941, 0.99948)),
        "T-block yaw": ("block yaw", (0.05221, 0.08790, 0.97327, 0.95453, 0.00624, 0.00519, 0.99686, 0.99738)),
    },
    "two-room": {
        "full state": (EVERYTHING, (0.00259, 0.00379, 0.99870, 0.99811, 0.00012, 0.00018, 0.99994, 0.99992)),
    },
    "reacher": {
        "full state": (EVERYTHING, (0.22869, 0.22958, 0.87226, 0.87172, 0.22789, 0.22789, 0.87268, 0.87269)),
        "joint angles": ("joint angles", (0.45409, 0.45531, 0.74620, 0.74541, 0.45570, 0.45571, 0.74540, 0.74540)),
        "finger location": (
            "finger location", (0.00329, 0.00386, 0.99833, 0.99804, 0.00007, 0.00006, 0.99997, 0.99997)
        ),
    },
    "cube": {
        "full state": (EVERYTHING, (0.36245, 0.36666, 0.66975, 0.66651, 0.39748, 0.39610, 0.66696, 0.66414)),
        "effector location": (
            "effector location", (0.00946, 0.01668, 0.99521, 0.99154, 0.00203, 0.00255, 0.99898, 0.99871)
        ),
        "effector yaw": ("effector yaw", (0.99748, 0.99850, 0.10474, 0.09879, 1.14190, 1.13966, 0.05170, 0.04293)),
        "gripper opening": (
            "gripper opening", (0.10291, 0.11178, 0.94705, 0.94234, 0.03405, 0.03922, 0.98286, 0.98033)
        ),
        "gripper contact": (
            "gripper contact", (0.18313, 0.18816, 0.90385, 0.90105, 0.10303, 0.10856, 0.94722, 0.94440)
        ),
        "cube location": ("cube location", (0.00715, 0.01143, 0.99639, 0.99422, 0.00146, 0.00183, 0.99927, 0.99908)),
        "cube yaw": ("cube yaw", (1.00929, 1.00929, 0.00088, -0.00009, 1.16924, 1.15646, -0.01238, -0.01713)),
    },
    "nball-1": {
        "full positions": (EVERYTHING, (0.00859, 0.49398, 0.99572, 0.71278, 0.00053, 0.50527, 0.99974, 0.70494)),
        "control ball": (
            "control ball, position", (0.00637, 0.98284, 0.99684, 0.15859, 0.00042, 1.00990, 0.99979, 0.05758)
        ),
        "environment balls": (
            "ball, position", (0.01080, 0.00512, 0.99459, 0.99744, 0.00043, 0.00020, 0.99979, 0.99990)
        ),
    },
    "nball-3": {
        "full positions": (EVERYTHING, (0.19330, 0.36222, 0.89821, 0.79862, 0.10821, 0.33956, 0.94443, 0.81328)),
        "control ball": (
            "control ball, position", (0.00726, 0.96038, 0.99643, 0.23830, 0.00040, 1.10246, 0.99981, 0.11921)
        ),
        "environment balls": (
            "ball, position", (0.25531, 0.16283, 0.86209, 0.91443, 0.14405, 0.09313, 0.92483, 0.95201)
        ),
    },
    "nball-6": {
        "full positions": (EVERYTHING, (0.47547, 0.95494, 0.72685, 0.23115, 0.48770, 1.05168, 0.71948, 0.14460)),
        "control ball": (
            "control ball, position", (0.00527, 0.83346, 0.99740, 0.42038, 0.00039, 0.96106, 0.99981, 0.33427)
        ),
        "environment balls": (
            "ball, position", (0.55384, 0.97519, 0.67093, 0.18149, 0.56514, 1.08073, 0.66404, 0.09657)
        ),
    },
}  # fmt: skip


def table(scale: Scale) -> Table:
    """At a scale."""
    groups = ("linear MSE", "linear r", "MLP MSE", "MLP r")
    columns = tuple(Column(name, "error", group) for group in groups for name in ("with the head", "LeWM"))
    rows = []
    for world, quantities in PAPER.items():
        runs, title = _trainings(scale, world)
        probing = scale.probing(len(quantities))
        for label, (quantity, numbers) in quantities.items():
            pairs = zip(numbers[::2], numbers[1::2], strict=True)
            entries = [
                Entry(one, probing, f"{quantity}: {figure}", number)
                for figure, pair in zip(FIGURES, pairs, strict=True)
                for one, number in zip(runs, pair, strict=True)
            ]
            rows.append(Row(f"{title}, {label}", tuple(entries)))
    notes = (
        "Targets are standardised: an error of 1 is knowing nothing. Yaws are sine and cosine, joint angles are as "
        "they are. The network's answers are means over three seeds.",
        "Full state: all that the rows below it name, side by side.",
    )
    return Table(NAME, "What can be read off latents", "combined_probe_results", scale, columns, tuple(rows), notes)


def _trainings(scale: Scale, world: str) -> tuple[list[tuple[Training, ...]], str]:
    """One model with the head and one without it, and the world's title; those of the tables of success."""
    if world.startswith("nball"):
        balls = int(world.removeprefix("nball-"))
        return [runs[:1] for runs in nball_success.trainings(scale, balls)], f"n = {balls}"
    return [runs[:1] for runs in environments.trainings(scale, world)], environments.NAMES[world]
