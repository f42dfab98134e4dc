"""Options that several commands share."""

import click

from autosync.commands.values import FILE, PLACE, complete_among, complete_cluster_file, model_names
from autosync.engine.core.registry import ENGINES
from autosync.search.registry import SEARCHERS
from autosync.tune.options import SIMULATORS, TRAINING_STEPS

model_option = click.option(
    "--model",
    "--task",
    "model",
    required=True,
    shell_complete=complete_among(model_names),
    help="A zoo model such as bert, or your own as package.module:function.",
)

framework_option = click.option(
    "--framework",
    type=click.Choice(list(ENGINES)),
    help="The framework of the model and of its steps.  [default: that of the model which your function returns; for a "
    "zoo model, TensorFlow if installed]",
)

records_framework_option = click.option(
    "--framework",
    type=click.Choice(list(ENGINES)),
    help="The framework of the records to use, if the data has several.",
)

address_option = click.option(
    "--address", help="Ray cluster to join.  [default: $RAY_ADDRESS, or a local one is started]"
)

workers_option = click.option(
    "--workers",
    type=int,
    help="Worker processes; by default one per node of a cluster, and 4 on a single CPU machine.",
)

emulate_option = click.option(
    "--emulate",
    shell_complete=complete_cluster_file,
    help="Emulate a cluster for this run: 4x200mbit, or a cluster file. Needs Linux.",
)

nodes_per_trial_option = click.option(
    "--nodes-per-trial", type=int, help="Nodes per trial; trials on different nodes run at once.  [default: all nodes]"
)

node_wait_option = click.option(
    "--node-wait", "node_wait_seconds", default=600.0, help="Seconds to wait for a node to come back."
)

cluster_option = click.option(
    "--cluster",
    type=FILE,
    shell_complete=complete_cluster_file,
    help="Cluster file that states nodes, racks, links and pace.",
)

profile_option = click.option(
    "--profile", type=FILE, help="Device profile that paced passes follow: the model on another device, a JSON file."
)

working_dir_option = click.option(
    "--working-dir", type=FILE, help="Directory that Ray ships to every node, with your model in it."
)

warmup_option = click.option("--warmup", "warmup_steps", default=10, help="Warm-up steps before timing.")

timed_steps_option = click.option("--steps", "timed_steps", default=40, help="Steps timed in each trial.")

searcher_option = click.option(
    "--searcher",
    default="guided",
    shell_complete=complete_among(lambda: SEARCHERS),
    help=f"One of {', '.join(SEARCHERS)}.",
)

simulator_option = click.option(
    "--simulator",
    default="auto",
    shell_complete=complete_among(lambda: SIMULATORS),
    help=f"The simulator that ranks candidates: one of {', '.join(SIMULATORS)}.",
)

patience_option = click.option(
    "--patience", type=int, help="Trials in a row without a better strategy before a search may end early."
)

training_steps_option = click.option(
    "--training-steps",
    default=TRAINING_STEPS,
    help="Training steps after the search, which determine the worth of a shorter step.",
)

run_data_option = click.option(
    "--data", type=PLACE, help="Directory of the run's records.  [default: in or next to the run]"
)
