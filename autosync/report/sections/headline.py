"""The headline: one number with its interval, its meaning, and the next command."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from autosync.cost import step_bound
from autosync.report.blocks import Block, Commands, Facts, Headline
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, interval_ms, ratio, ratio_interval
from autosync.runs import Run, bound_in_words, bound_parts, pace_explanation, strategy_name, verdict_in_words
from autosync.spec import ModelSpec, median_interval
from autosync.stats.paired import too_few
from autosync.words.commands import (
    RanOn,
    distribute_call,
    export_command,
    resume_command,
    train_command,
    trial_command,
)
from autosync.words.quantities import count_of, duration, megabytes, milliseconds


def headline_of(findings: Findings) -> Headline:
    run = findings.run
    paced = ", paced" if run.cluster.paced else ""
    title = f"{run.model_name} on {count_of(len(run.cluster.nodes), 'node')}{paced}"
    if run.verdict is None:
        return _headline_without_verdict(findings, title)
    proven = bool(run.verdict["beyond_noise"])
    explanation = pace_explanation(run.cluster.numbers) if run.cluster.paced else ""
    if proven:
        unit = f"as fast as the best baseline{paced}"
        advice = "Train with the returned strategy."
        if run.verdict.get("changes_statistics"):
            advice = "Compare the loss it reaches with that of another strategy before you train with it."
    else:
        unit = f"the best candidate over the best baseline: not beyond the noise{paced}"
        advice = f"Train with {run.verdict['baseline_label']}, which is returned."
    return Headline(
        title=title,
        figure=ratio(run.verdict["speedup"]),
        unit=unit,
        uncertainty=_uncertainty(run.verdict),
        sentence=" ".join(filter(None, (verdict_in_words(run.verdict), bound_in_words(run.verdict), explanation))),
        advice=f"{advice}{_payback(findings)}",
        lines=commands_of(findings)[:1],
        facts=_facts(findings),
    )


def _uncertainty(verdict: Mapping[str, Any]) -> str:
    if verdict["speedup_interval"] is None:
        return too_few(verdict["rounds"])
    low, high = verdict["speedup_interval"]
    return f"95 % interval {ratio_interval((low, high))}, {count_of(verdict['rounds'], 'round')} in turns"


def commands_of(findings: Findings) -> list[tuple[str, str]]:
    """Commands to type next, each with its purpose."""
    run = findings.run
    strategy = str(run.directory / "strategy.json")
    ran_on = RanOn.of(run.options, run.description.get("ran_on") or {})
    if run.strategy is None:
        return [(resume_command(_arguments(run), str(run.directory), ran_on), "resume this run")]
    model = str(run.options.get("model", run.model_name))
    framework = str(run.options["framework"]) if "framework" in run.options else None
    if run.strategy.ddp is not None:
        training = [(export_command(strategy), "write the file that wraps a model in DistributedDataParallel")]
    else:
        training = [(train_command(model, strategy, ran_on, framework), "train with it")]
        if framework == "pytorch":
            training = [(distribute_call(strategy), "train with it in your own script (docs/pytorch.md)"), *training]
    return [
        *training,
        (shlex.join(["autosync", "explain", strategy]), "explain its decisions, and the parts of its step time"),
        (trial_command(model, strategy, ran_on, framework), "time it once more"),
    ]


def _arguments(run: Run) -> list[str]:
    """The arguments after `autosync` with which the run began."""
    plain = ["tune", "--model", str(run.options.get("model", "MODEL"))]
    try:
        return shlex.split(str(run.description.get("command", "")))[1:] or plain
    except ValueError:  # a foreign run.json with an open quote
        return plain


def _headline_without_verdict(findings: Findings, title: str) -> Headline:
    """The headline before the finals: the best so far, which may have been lucky."""
    run = findings.run
    complete = [trial for trial in run.trials if trial.outcome == "ok"]
    trials = [trial for trial in complete if trial.strategy.digest == run.winner_digest]
    if not trials:
        sentence = "No trial has succeeded." if findings.points else "No trial has ended yet."
        return Headline(title, NOTHING, "no step time yet", "", sentence, "", commands_of(findings), _facts(findings))
    best, steps = trials[0], [seconds for trial in trials for seconds in trial.step_seconds]
    within = "one trial" if len(trials) == 1 else f"{len(trials)} trials"
    name = strategy_name(best.label, best.strategy.digest, best.purpose, time=best.time)
    return Headline(
        title=title,
        figure=milliseconds(run.median_seconds[best.strategy.digest], best.time),
        unit=f"a step: the best so far, {name}",
        uncertainty=f"95 % interval {interval_ms(median_interval(steps))}, within {within}",
        sentence="There is no verdict yet: the best strategy was not re-measured in turns with the best baseline, and "
        "the best of many trials is somewhat lucky.",
        advice="Resume the run to have it proven." if run.strategy is None else "It is unproven.",
        lines=commands_of(findings)[:1],
        facts=_facts(findings),
    )


def _payback(findings: Findings) -> str:
    """A sentence on the payback of the search. Empty if the strategy changes the statistics, or if passes were
    paced, because passes in training are not.
    """
    payback = findings.payback
    if payback is None or findings.run.cluster.paced or (findings.run.verdict or {}).get("changes_statistics"):
        return ""
    return (
        f" It saves {payback.saved_seconds * 1e3:.1f} ms a step, so the search of {duration(payback.search_seconds)} "
        f"has paid for itself after {_thousands(payback.steps)} steps "
        f"({duration(payback.training_seconds)} of training); with the least speed-up in the interval, "
        f"after {_thousands(payback.latest)}."
    )


def _thousands(count: float) -> str:
    """The count with two significant digits, in groups of three."""
    rounded = float(f"{count:.2g}")
    return f"{rounded:,.0f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _facts(findings: Findings) -> list[tuple[str, str]]:
    run = findings.run
    facts = [("trials", str(run.trial_count))]
    if run.wall_seconds:
        facts.append(("search took", duration(run.wall_seconds)))
    if run.verdict:
        compared = {"best found": run.verdict.get("candidate"), "best baseline": run.verdict["baseline"]}
        for role, digest in compared.items():
            contender = next((contender for contender in findings.contenders if contender.digest == digest), None)
            if contender is not None:
                facts.append((role, f"{milliseconds(contender.median_seconds, contender.time)} a step"))
    if run.model is not None:
        facts.append(("gradients", f"{megabytes(run.model.gradient_bytes)} a replica and step"))
        facts += _bounds(run, run.model)
    return facts


def _bounds(run: Run, model: ModelSpec) -> Iterator[tuple[str, str]]:
    """The lower bound of a step, and that of a step without a barrier if the run timed such steps."""
    names = {False: "lower bound of any exact strategy"}
    if any(record.strategy.overlap_next_forward for record in run.trials):
        names = {False: "lower bound with a barrier after each step", True: "lower bound of any exact strategy"}
    for overlaps, name in names.items():
        bound = step_bound(model, run.cluster, overlaps)
        if bound.seconds > 0:
            yield name, f"{milliseconds(bound.seconds, run.cluster.time)} a step ({bound_parts(bound.reason)})"


FILES = {
    "strategy.json": "the strategy, one line a variable",
    "result.json": "medians, intervals and the verdict for programs; its schema: autosync runs schema",
    "trials.csv": "a row for each trial",
    "probe.json": "every transfer that measured links",
    "run.json": "the run's options, and the cluster",
}


def usage_blocks(findings: Findings) -> list[Block]:
    run = findings.run
    files = [(name, about) for name, about in FILES.items() if (run.directory / name).exists()]
    if run.data is not None:
        files.append((str(run.data), f"every trial as a record (Parquet); this run's are called {run.name}"))
    return [Commands(commands_of(findings)), Facts(files)]
