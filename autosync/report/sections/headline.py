"""The headline: one number with its interval, what it means, and what to do now."""

import shlex
from collections.abc import Mapping
from typing import Any

from autosync.cost import step_bound
from autosync.report.blocks import Block, Commands, Facts, Headline
from autosync.report.findings import Findings
from autosync.report.numbers import NOTHING, interval_ms, ratio, ratio_interval
from autosync.runs import Run, beside_the_verdict, strategy_name, verdict_in_words
from autosync.spec import median_interval
from autosync.stats.paired import too_few
from autosync.words.commands import RanOn, resume_command, train_command, trial_command
from autosync.words.quantities import counted, duration, megabytes, milliseconds


def headline_of(findings: Findings) -> Headline:
    run = findings.run
    paced = ", paced" if run.cluster.paced else ""
    title = f"{run.model_name} on {counted(len(run.cluster.nodes), 'node')}{paced}"
    if run.verdict is None:
        return _unproven(findings, title)
    proven = bool(run.verdict["beyond_noise"])
    if proven:
        unit = f"as fast as the best baseline{paced}"
        advice = "Train with the strategy that was found."
        if run.verdict.get("changes_statistics"):
            advice = "Compare the loss it reaches with that of another strategy before you train with it."
    else:
        unit = f"the best that was found, against the best baseline: not beyond the noise{paced}"
        advice = f"Train with {run.verdict['baseline_label']}, which is returned."
    return Headline(
        title=title,
        figure=ratio(run.verdict["speedup"]),
        unit=unit,
        uncertainty=_uncertainty(run.verdict),
        sentence=" ".join([verdict_in_words(run.verdict), *beside_the_verdict(run.verdict)]),
        advice=f"{advice}{_payback(findings)}",
        lines=commands_of(findings)[:1],
        facts=_facts(findings),
    )


def _uncertainty(verdict: Mapping[str, Any]) -> str:
    if verdict["speedup_interval"] is None:
        return too_few(verdict["rounds"])
    low, high = verdict["speedup_interval"]
    return f"95 % interval {ratio_interval((low, high))}, {counted(verdict['rounds'], 'round')} in turns"


def commands_of(findings: Findings) -> list[tuple[str, str]]:
    """Commands to type next, each with its purpose."""
    run = findings.run
    strategy = str(run.directory / "strategy.json")
    ran_on = RanOn.of(run.options, run.asked.get("ran_on") or {})
    if run.strategy is None:
        return [(resume_command(_arguments(run), str(run.directory), ran_on), "go on with this run")]
    model = str(run.options.get("model", run.model_name))
    return [
        (train_command(model, strategy, ran_on), "train with it"),
        (shlex.join(["autosync", "explain", strategy]), "say what it does, and what a step waits for"),
        (trial_command(model, strategy, ran_on), "time it once more"),
    ]


def _arguments(run: Run) -> list[str]:
    """The arguments after `autosync` that the run began with."""
    plain = ["tune", "--model", str(run.options.get("model", "MODEL"))]
    try:
        return shlex.split(str(run.asked.get("command", "")))[1:] or plain
    except ValueError:  # a foreign run.json with an open quote
        return plain


def _unproven(findings: Findings, title: str) -> Headline:
    """The headline before the finals: the best so far, which may be lucky."""
    run = findings.run
    complete = [each for each in run.trials if each.outcome == "ok"]
    own = [each for each in complete if each.strategy.digest == run.winner_digest]
    if not own:
        sentence = "No trial has succeeded." if findings.points else "No trial has come to its end yet."
        return Headline(title, NOTHING, "no step time yet", "", sentence, "", commands_of(findings), _facts(findings))
    best, steps = own[0], [seconds for each in own for seconds in each.step_seconds]
    within = "one trial" if len(own) == 1 else f"{len(own)} trials"
    name = strategy_name(best.label, best.strategy.digest, best.purpose, time=best.time)
    return Headline(
        title=title,
        figure=milliseconds(run.median_seconds[best.strategy.digest], best.time),
        unit=f"a step: the best so far, {name}",
        uncertainty=f"95 % interval {interval_ms(median_interval(steps))}, within {within}",
        sentence="There is no verdict yet: the best was not measured again in turns with the best baseline, and the "
        "best of many trials is somewhat lucky.",
        advice="Go on with the run to have it proven." if run.strategy is None else "It is unproven.",
        lines=commands_of(findings)[:1],
        facts=_facts(findings),
    )


def _payback(findings: Findings) -> str:
    """A sentence on when the search has paid for itself; empty where that strategy changes the statistics, or passes
    were paced, as those of training are not.
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
    """The count in two digits, which are enough, and in groups of three."""
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
            contender = next((each for each in findings.contenders if each.digest == digest), None)
            if contender is not None:
                facts.append((role, f"{milliseconds(contender.median_seconds, contender.time)} a step"))
    if run.model is not None:
        facts.append(("gradients", f"{megabytes(run.model.gradient_bytes)} a replica and step"))
        bound = step_bound(run.model, run.cluster)
        if bound.seconds > 0:
            needed = f"{milliseconds(bound.seconds)} a step, for {bound.reason} alone"
            facts.append(("no exact strategy takes less than", needed))
    return facts


FILES = {
    "strategy.json": "the strategy, one line a variable",
    "result.json": "medians, intervals and the verdict for programs; its schema: autosync runs schema",
    "trials.csv": "a row for each trial",
    "probe.json": "every transfer by which links were measured",
    "run.json": "what was asked, and the cluster",
}


def usage_blocks(findings: Findings) -> list[Block]:
    run = findings.run
    files = [(name, about) for name, about in FILES.items() if (run.directory / name).exists()]
    if run.data is not None:
        files.append((str(run.data), f"every trial as a record (Parquet); this run's are called {run.name}"))
    return [Commands(commands_of(findings)), Facts(files)]
