"""The section on a run's options: its command, model, space, budget and timing of steps."""

import shlex

from autosync.report.blocks import Block, Commands, Facts, Paragraph
from autosync.report.findings import Findings
from autosync.words.quantities import count_of, duration, model_in_words

IN_WORDS = {"auto": "a learned simulator, after a closed form has preselected them (auto)"}
"""Descriptions of simulators whose names are not self-explanatory."""


def question_blocks(findings: Findings) -> list[Block]:
    run = findings.run
    pairs = [("Model", model_in_words(run.model) if run.model else run.model_name)]
    pairs += [("Space", _space(findings)), ("Search", _search(findings)), ("Budget", _budget(findings))]
    pairs.append(("Timing", _timing(findings)))
    blocks: list[Block] = [Facts(pairs)]
    if "command" in run.description:
        blocks.insert(0, Commands([(_quote_command(str(run.description["command"])), "began or resumed this run")]))
    if run.description.get("space"):
        blocks.append(
            Paragraph(
                "The effective dimension is the number of variables with equally many decisions each that would make "
                "as large a space (participation ratio of the logarithms of their numbers of decisions)."
            )
        )
    return blocks


def _quote_command(text: str) -> str:
    """Return `text` as one command with its arguments, quoted again, because a stranger's text may hold a second
    command.
    """
    try:
        return shlex.join(shlex.split(text))
    except ValueError:  # a quotation without an end
        return shlex.quote(text)


def _space(findings: Findings) -> str:
    space = findings.run.description.get("space")
    if not space:
        named = findings.run.options.get("space") or "the model's own"
        return f"{named}; its size was not recorded by the version that ran."
    return (
        f"{space['name']}: 10^{space['log10_size']:.1f} strategies; {count_of(space['decided_variables'], 'variable')} "
        f"to decide, effective dimension {space['effective_dimension']:.1f}"
    )


def _search(findings: Findings) -> str:
    options, asked = findings.run.options, findings.run.description
    parts = [str(options[name]) for name in ("searcher",) if name in options]
    if options.get("searcher") == "guided":
        named = str(options.get("simulator", "a simulator"))
        used = str(asked.get("simulator", named))
        parts.append(f"candidates ranked by {IN_WORDS.get(used, used)}{'' if used == named else f' ({named})'}")
    parts += [f"seed {options['seed']}"] if "seed" in options else []
    return ", ".join(parts) or "not recorded"


def _budget(findings: Findings) -> str:
    asked, run = findings.run.description, findings.run
    done = run.trial_count
    budget = f"{done} of {count_of(asked['trials'], 'trial')}" if "trials" in asked else count_of(done, "trial")
    seconds = asked.get("time_budget_seconds")
    limit = f", at most {duration(seconds)}" if seconds else ""
    return f"{budget}{limit}{f'; it took {duration(run.wall_seconds)}' if run.wall_seconds else ''}"


def _timing(findings: Findings) -> str:
    if not findings.points:
        return (
            "unknown, because the records are no longer in their place"
            if findings.run.trial_count
            else "no trial has ended"
        )
    protocol, asked = findings.points[0].record.protocol, findings.run.description
    rounds = asked.get("rounds") or max(
        (len(contender.turns) for contender in findings.contenders if contender.remeasured), default=0
    )
    again = f"; finalists re-measured in {count_of(rounds, 'round')}, in turns of half as many steps" if rounds else ""
    return (
        f"{count_of(protocol.warmup_steps, 'step')} to warm up and {protocol.timed_steps} timed in each trial; "
        f"stopped early when {protocol.stop_factor:g} times as slow as the best{again}"
    )
