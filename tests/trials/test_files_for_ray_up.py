"""The cluster files that come with the project."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

PROJECT = Path(__file__).parents[2]
AWS, LOCAL = PROJECT / "cluster.yaml", PROJECT / "cluster.local.yaml"


@pytest.mark.parametrize("file", [AWS, LOCAL], ids=lambda file: file.name)
def test_ray_accepts_the_cluster_file(file):
    validate_config(prepare_config(yaml.safe_load(file.read_text())))


def test_ray_refuses_it_without_a_head():
    document = yaml.safe_load(AWS.read_text())
    del document["head_node_type"]
    with pytest.raises(Exception, match="head_node_type"):
        validate_config(prepare_config(document))


def test_all_machines_of_both_files_are_wanted_from_the_start():
    aws = prepare_config(yaml.safe_load(AWS.read_text()))
    assert aws["available_node_types"]["worker"]["min_workers"] == aws["max_workers"] == 3
    local = prepare_config(yaml.safe_load(LOCAL.read_text()))
    (machine,) = local["available_node_types"].values()
    assert machine["min_workers"] == local["max_workers"] == len(local["provider"]["worker_ips"])


@pytest.mark.parametrize("file", [AWS, LOCAL], ids=lambda file: file.name)
def test_machines_get_the_token_and_run_nothing_of_ray_without(file):
    document = yaml.safe_load(file.read_text())
    assert document["file_mounts"]["~/.ray/auth_token"] == "~/.ray/auth_token"
    assert any("RAY_AUTH_MODE=token" in command for command in document["setup_commands"])


def test_the_head_on_aws_gets_what_starts_the_other_machines():
    assert any("boto3" in command for command in yaml.safe_load(AWS.read_text())["head_setup_commands"])
