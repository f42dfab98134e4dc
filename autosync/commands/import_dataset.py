"""The command `autosync import`: turns the public AutoSync dataset into records, and a trace into a profile."""

from functools import partial
from pathlib import Path

import click

from autosync.commands.profile import check_writable
from autosync.commands.shell import NOT_DONE, SETTINGS, run_command
from autosync.commands.values import FILE, PLACE
from autosync.engine.core.registry import engine_named
from autosync.errors import SpecError
from autosync.files import write_atomically
from autosync.profiling.kineto import profile_from_trace
from autosync.spec import canonical_json
from autosync.spec.address import Place
from autosync.terminal import say
from autosync.zoo import build_task, check_model_name


@click.command("import", context_settings=SETTINGS)
@click.argument("source", type=FILE)
@click.option(
    "--out", type=PLACE, help="Directory or address of records to add to, or the profile to write.  [default: data]"
)
@click.option(
    "--sparse-rows",
    type=click.IntRange(1),
    help="Rows that a replica's step touches in each table with a sparse gradient; the dataset does not state them.",
)
@click.option("--model", help="The model of a trace: a PyTorch model of the zoo, or package.module:function.")
def command(source: Path, out: Place | None, sparse_rows: int | None, model: str | None) -> int:
    """Read the public AutoSync dataset, unpacked to the directory SOURCE, into records of this program.

    If SOURCE is a trace of torch.profiler (a JSON file, possibly compressed by gzip), compute from it the profile of a
    replica's passes, which paced nodes follow with --profile.
    """
    if source.is_file() or model is not None:
        return _import_trace(source, out, model)
    from autosync.dataset.autosync_import import import_dataset  # pyarrow
    from autosync.dataset.store import RecordStore

    records = Path("data") if out is None else out
    imported = import_dataset(source, RecordStore.create(records), sparse_rows)
    for (where, reason), count in imported.passed_over.most_common():
        say(f"{count} of {where} were passed over: {reason}")
    say(f"{imported.records} samples are now in {records}; {sum(imported.passed_over.values())} were passed over.")
    return 0 if imported.records else NOT_DONE


def _import_trace(trace: Path, out: Place | None, model: str | None) -> int:
    if model is None or not isinstance(out, Path):
        raise SpecError(
            "A trace needs --model, the model that it traces, and --out, the profile to write, a file here."
        )
    check_model_name(model, "pytorch")
    check_writable(out)
    spec = engine_named("pytorch").capture(build_task(model, framework="pytorch")).spec
    profile = profile_from_trace(trace, spec)
    write_atomically(out, canonical_json(profile.to_json()) + "\n")
    say(
        f"{model} on {profile.device}, {profile.batch_size} examples: forward {profile.forward_seconds * 1e3:.2f} ms, "
        f"backward {profile.backward_seconds * 1e3:.2f} ms; in {out}"
    )
    return 0


main = partial(run_command, command)
