"""The command `autosync cluster`: checks, shows, describes and converts cluster files."""

import json
from functools import partial
from pathlib import Path

import click

from autosync.commands.shell import SETTINGS, run_command
from autosync.commands.values import FILE, complete_cluster_file
from autosync.terminal import emit, say_all
from autosync.words.cluster import cluster_lines, route_lines
from trials.cluster.file import ClusterFile, read_cluster_file
from trials.cluster.resource_spec import cluster_file_text


@click.group("cluster", invoke_without_command=True, context_settings=SETTINGS)
@click.pass_context
def command(context: click.Context) -> None:
    """Cluster files: YAML that states a cluster's nodes, racks and links."""
    if context.invoked_subcommand is None:
        raise click.UsageError("Name a subcommand: schema, show FILE, or import FILE; see --help.")


@command.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of cluster files."""
    emit(json.dumps(ClusterFile.model_json_schema(), indent=2))


@command.command("show")
@click.argument("file", type=FILE, shell_complete=complete_cluster_file)
def show_command(file: Path) -> None:
    """Check the cluster file FILE, and print its nodes, links and routes."""
    cluster = read_cluster_file(file)
    say_all([*cluster_lines(cluster), *route_lines(cluster)])


@command.command("import")
@click.argument("file", type=FILE)
def import_command(file: Path) -> None:
    """Convert FILE, a resource_spec.yml of AutoDist, and print the cluster file."""
    emit(cluster_file_text(file), nl=False)


main = partial(run_command, command)
