"""Refuses unusable options before anything starts: an unknown model, space or file, or more workers than fit."""

from autosync.engine.core.registry import check_engine_installed
from autosync.search.registry import check_installed
from autosync.shadows import check_folders
from autosync.spec import check_step_time_ranks, read_device_profile
from autosync.tune.options import OptionsError, TuneOptions
from autosync.tune.simulators import check_warm_start
from autosync.zoo import check_model_name, default_space, framework_by_name, resolve_name
from search_spaces import load_space
from trials.cluster.file import cluster_to_emulate, read_cluster_file
from trials.opening import check_profile, read_strategy_file
from trials.workers.local_ray import check_workers


def check_cheap_things(options: TuneOptions) -> None:
    """Raise `AutosyncError` for the first option that cannot be used."""
    check_model_name(options.model, options.framework)
    check_installed(options.searcher)
    if options.emulate is None:
        check_workers(options.workers, options.address)
    space = load_space(options.space or default_space(resolve_name(options.model, 0))).without(*options.without_rules)
    if space.by_ddp and framework_by_name(options.model, options.framework) == "tensorflow":
        raise OptionsError(f"--space {space.name} is for PyTorch models; add --framework pytorch, or omit --space.")
    for file in options.try_first:
        check_step_time_ranks(read_strategy_file(file))
    if options.cluster is not None:
        read_cluster_file(options.cluster)
    emulated = None if options.emulate is None else cluster_to_emulate(options.emulate)
    if options.profile is not None:
        read_device_profile(options.profile)
        if emulated is not None:
            check_profile(options.profile, emulated)
    if options.working_dir is not None and not options.working_dir.is_dir():
        raise OptionsError(f"--working-dir must be a directory, but {options.working_dir} is none.")
    check_folders(filter(None, [options.working_dir]))
    check_warm_start(options, emulated)
    check_engine_installed(options.framework)
