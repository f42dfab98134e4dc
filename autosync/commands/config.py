"""The option `--config`: the options of a command from a YAML file with the same names, such as `time-budget: 600`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from autosync.commands.values import FILE
from autosync.errors import SpecError, did_you_mean
from autosync.files import open_to_read
from autosync.spec import cut, quote
from autosync.yaml_text import YAML, parse_yaml


def _read(context: click.Context, _option: click.Parameter, file: Path | None) -> None:
    """Make the values in `file` the defaults of the command, so that stated options take precedence."""
    if file is None or context.resilient_parsing:  # a shell requests completions
        return
    options = {
        name.removeprefix("--"): parameter
        for parameter in context.command.params
        if isinstance(parameter, click.Option) and parameter.expose_value
        for name in parameter.opts
    }
    values = {}
    for key, value in _entries(file).items():
        if key not in options:
            raise click.UsageError(
                f"--config {file}: {context.info_name} has no option {quote(key)}; list its options with --help."
                f"{did_you_mean(str(key), options)}"
            )
        values[str(options[key].name)] = _value_of(options[key], value, f"--config {file}: {cut(str(key))}")
    context.default_map = {**(context.default_map or {}), **values}


config_option = click.option(
    "--config",
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=_read,
    help="YAML file with options of this command, such as `time-budget: 600`; options stated here take precedence.",
)


def _entries(file: Path) -> Mapping[Any, Any]:
    """The map in `file`. Raises `SpecError`."""
    try:
        with open_to_read(file) as stream:
            document = parse_yaml(stream.read(YAML.size + 1), f"--config {file}")
    except OSError as error:
        raise SpecError(f"--config {file} cannot be read: {error.strerror}; name a YAML file of options.") from None
    if not isinstance(document, Mapping):
        raise SpecError(f"--config {file} must be a map of options to values, such as `trials: 50`.")
    return document


def _value_of(option: click.Option, value: Any, where: str) -> Any:
    """`value` as it would be typed; Click checks it as if it was. Raises `click.UsageError` for another shape."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.UsageError(f"{where} must be true or false, not {quote(value)}.")
        return value
    if option.multiple:
        return [_text_of(entry, where) for entry in (value if isinstance(value, list) else [value])]
    return _text_of(value, where)


def _text_of(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise click.UsageError(f"{where} must be a text or a number, not {quote(value)}; leave it out for the default.")
    return str(value)
