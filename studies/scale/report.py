"""Writes the study's page and tables: predicted steps, changes of the winner, search costs, and the original's
figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from autosync.files import write_atomically
from autosync.stats.tables import TextTable, tenths
from studies.scale.cells import results
from studies.scale.clusters import CLUSTERS, in_words

Row = Mapping[str, Any]

PUBLISHED: Mapping[str, Mapping[str, float]] = {
    "inceptionv3": {"all_reduce": 106, "parallax": 106, "partitioned": 98, "one": 94, "balanced": 102, "horovod": 97},
    "resnet101": {"all_reduce": 47, "parallax": 47, "partitioned": 38, "one": 43, "balanced": 45, "horovod": 49},
    "densenet121": {"all_reduce": 81, "parallax": 81, "partitioned": 67, "one": 70, "balanced": 70, "horovod": 78},
    "vgg16": {"all_reduce": 24.5, "parallax": 24, "partitioned": 23.6, "one": 12.5, "balanced": 13.7, "horovod": 29.6},
    "bert-large": {"all_reduce": 3.0, "parallax": 3.0, "partitioned": 5.0, "one": 1.8, "balanced": 3.7, "horovod": 3.2},
}
"""Examples per second and GPU on 32 GPUs, from the original's published benchmark (bar heights, to about 1 %)."""

BASELINE_OF = {
    "partitioned": "partitioned_parameter_server",
    "one": "parameter_server",
    "balanced": "balanced_parameter_server",
    "parallax": "parallax",
    "horovod": "all_reduce_64mb",
}
"""The baseline here for each builder of the published benchmark."""

CLAIMED = "1.2 to 1.6"

HEAD = """# At scale, by prediction

Everything on this page is **predicted** by the replay with its default coefficients, which are not fitted to records;
no step was run. A trial of a search takes the time that the replay predicts. A search therefore shows the best
strategies *if the replay is right*, and the cost of searching. `python -m studies bench scale` writes this page.

"""

BY_FLOPS = (
    "Passes on GPUs take the model's flops times the simulators' assumed time per flop; no GPU was measured. "
    "Networks are as stated or assumed, and no switch has a limit."
)


def write_report(out: Path) -> Path:
    """Write the page and a CSV file for each table into `out`; return the path of the page."""
    rows = results(out)
    made = [_steps(rows), _winners(rows), _costs(rows), _published(rows), _gains(rows)]
    for table in made:
        write_atomically(out / f"{table.name}.csv", table.csv())
    shown = {row["cluster"] for row in rows}
    lines = [f"- `{name}`: {in_words(name)}" for name in CLUSTERS if name in shown]
    ways = [_passes(way) for way in sorted({row["passes"] for row in rows})]
    page = out / "scale.md"
    write_atomically(page, HEAD + "\n".join([*lines, "", *ways, "", *(table.markdown() for table in made)]))
    return page


def _passes(way: str) -> str:
    return BY_FLOPS if way == "flops" else f"Passes take the times measured on {way}, for any GPUs of the cluster."


def _best_baseline(row: Row) -> tuple[str, float]:
    best: tuple[str, float] = min(row["baselines"].items(), key=lambda baseline: baseline[1])
    return best


def _steps(rows: Sequence[Row]) -> TextTable:
    names = list(dict.fromkeys(name for row in rows for name in row["baselines"]))
    return TextTable(
        "steps",
        "Predicted steps",
        "Milliseconds of a step for every baseline and for the best strategy found. *Passes*: the forward and the "
        "backward pass alone. *Tuned*: the best of an all-reduce's bucket sizes and algorithms, as `autosync tune "
        "--tuned-all-reduce` times them; the strategy found may mix algorithms, servers and factors.",
        (
            "model",
            "cluster",
            "passes",
            *names,
            "tuned",
            "found",
            "over the best baseline",
            "over Horovod's",
            "over tuned",
        ),
        [
            (
                row["model"],
                row["cluster"],
                _ms(row["computing"]),
                *(_ms(row["baselines"][name]) if name in row["baselines"] else "as another" for name in names),
                f"{_ms(row['tuned'])} ({row['tuned_label']})",
                _ms(row["best"]),
                _times(_best_baseline(row)[1] / row["best"]),
                _times(row["baselines"]["all_reduce_64mb"] / row["best"])
                if "all_reduce_64mb" in row["baselines"]
                else "",
                _times(row["tuned"] / row["best"]),
            )
            for row in rows
        ],
    )


def _winners(rows: Sequence[Row]) -> TextTable:
    return TextTable(
        "winners",
        "Where the winner changes",
        "The baseline with the shortest predicted step, the next baseline and its extra time, and the decisions of the "
        "strategy found: shares of the gradient's bytes by the place of their sum. Gradients that are *gathered*, such "
        "as sufficient factors, are summed by every replica.",
        ("model", "cluster", "best baseline", "next", "found", "shards", "servers", "buckets", "at trial"),
        list(_winner_rows(rows)),
    )


def _winner_rows(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    for row in rows:
        (first, least), *slower = sorted(row["baselines"].items(), key=lambda baseline: baseline[1])
        following = f"{slower[0][0]} (+{100 * (slower[0][1] / least - 1):.0f} %)" if slower else ""
        decides = row["best_decides"]
        shares = ", ".join(f"{100 * share:.0f} % {name}" for name, share in decides["shares"].items())
        decision = f"the baseline {row['best_label']}" if row["best_label"] in row["baselines"] else shares
        numbers = (decides["shards"], decides["servers"], decides["buckets"], row["best_trial"])
        yield (row["model"], row["cluster"], first, following, decision, *map(str, numbers))


def _costs(rows: Sequence[Row]) -> TextTable:
    of_sixteen = {
        (row["model"], row["cluster"].partition("x")[2]): row["search_seconds"]
        for row in rows
        if row["cluster"] in ("16x1", "2x8")
    }
    return TextTable(
        "search_cost",
        "Cost of a search",
        "Processor seconds of a search, divided also by those on 16 workers with the same number of GPUs per node, and "
        "the peak memory of the process. The time to predict the baselines before the search does not count.",
        ("model", "cluster", "workers", "trials", "seconds", "over 16 workers", "MB"),
        [
            (
                row["model"],
                row["cluster"],
                str(len(CLUSTERS[row["cluster"]].replica_devices)),
                str(row["trials"]),
                f"{row['search_seconds']:.0f}",
                _over(row, of_sixteen),
                f"{row['peak_bytes'] / 1e6:.0f}",
            )
            for row in rows
        ],
    )


def _over(row: Row, of_sixteen: Mapping[tuple[str, str], float]) -> str:
    least = of_sixteen.get((row["model"], row["cluster"].partition("x")[2]))
    return "" if least is None else _times(row["search_seconds"] / least)


def _published(rows: Sequence[Row]) -> TextTable:
    of_model = {row["model"]: row for row in rows if row["cluster"] == "B-32"}
    lines = []
    for model, published in PUBLISHED.items():
        if model not in of_model:
            continue
        steps = of_model[model]["baselines"]
        for builder, name in BASELINE_OF.items():
            if builder == "horovod" or name not in steps:
                continue
            ours, theirs = steps["all_reduce_64mb"] / steps[name], published[builder] / published["horovod"]
            lines.append((model, name, _times(theirs), _times(ours)))
    return TextTable(
        "published",
        "Comparison with the original's published benchmark",
        "Speed relative to Horovod's on 32 T4 in 8 nodes at 50 Gbit/s: published (measured, with TensorFlow 2.0, NCCL, "
        "gRPC), and predicted here. The differences: their all-reduce is NCCL's inside nodes and between nodes, ours "
        "goes hop by hop by TensorFlow's transport; they partition a variable by its smallest divisor, we into one "
        "shard per server if a shard is worth a message; their batches were chosen to fit a T4, ours are the models' "
        "defaults; passes are as stated above.",
        ("model", "baseline", "published", "predicted"),
        lines,
    )


def _gains(rows: Sequence[Row]) -> TextTable:
    return TextTable(
        "gains",
        "The original's clusters",
        f"Predicted speed of the best strategy found over the best baseline. The original claims {CLAIMED} over "
        "strategies optimized by hand, for NCF, BERT and VGG16 on A and B together, measured after 200 trials; it does "
        "not say which figure belongs to which model.",
        ("model", "cluster", "best baseline", "found over it", "claimed by the original"),
        [
            (
                row["model"],
                row["cluster"],
                _best_baseline(row)[0],
                _times(_best_baseline(row)[1] / row["best"]),
                CLAIMED if row["model"] in ("ncf", "bert-large", "vgg16") else "",
            )
            for row in rows
            if row["cluster"] in ("A", "B")
        ],
    )


def _ms(seconds: float) -> str:
    return tenths(1e3 * seconds)


def _times(ratio: float) -> str:
    return f"{ratio:.2f} x"
