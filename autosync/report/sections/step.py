"""The section on one step of the winning strategy: the passes, and the messages hidden under them or exposed."""

from functools import partial

from autosync.report.blocks import Block, Note, Picture, Points
from autosync.report.findings import Findings
from autosync.report.overlap import overlap_lines, predict_overlap
from autosync.report.pictures.step import draw_step, lanes_of
from autosync.words.cluster import prediction_phase
from autosync.words.quantities import count_of, milliseconds

MOST_NODES = 64
"""The maximum number of nodes of a cluster whose steps are drawn, because each link has its times."""


def step_blocks(findings: Findings) -> list[Block]:
    run, winner, model = findings.run, findings.winner, findings.run.model
    if winner is None or model is None:
        return [Note("There is no strategy whose step could be predicted.")]
    records = [*run.trials, *run.finals]
    prediction = predict_overlap(winner, model, run.cluster, records)
    blocks: list[Block] = [Points(list(overlap_lines(prediction, winner, records)))]
    if len(run.cluster.nodes) > MOST_NODES:
        return [*blocks, Note(f"The picture of a step is for clusters of at most {MOST_NODES} nodes.")]
    lanes = lanes_of(prediction.overlap, prediction.replay.links(model, run.cluster, winner))
    if not lanes.links:
        return [*blocks, Note("No messages cross a link, because one process holds all variables.")]
    overlap = prediction.overlap
    hidden = f"{lanes.hidden} more nodes and less busy links are not drawn. " if lanes.hidden else ""
    picture = Picture(
        "step",
        f"Predicted step of {milliseconds(overlap.step_seconds)}: {count_of(len(lanes.nodes), 'node')} with passes, "
        f"{count_of(len(lanes.links), 'link direction')} with messages, of which "
        f"{milliseconds(overlap.exposure_seconds)} are outside all passes",
        f"One step as the replay predicts it, not measured: a row for each node with its passes, and for each link "
        f"direction with its messages. Neighbouring shades are different buckets or shards, with the first variable's "
        f"name where it fits; +3 stands for three more variables. Messages are hidden while a pass runs, and exposed "
        f"otherwise. The dashed lines mark the beginning of the first and the end of the last pass. "
        f"{prediction_phase(run.cluster)} {hidden}"
        f"n = {count_of(len(lanes.links), 'link direction')}.",
        partial(draw_step, lanes),
    )
    return [*blocks, picture]
