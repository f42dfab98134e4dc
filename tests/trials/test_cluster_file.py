"""The cluster file that comes with the project."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

CLUSTER_FILE = Path(__file__).parents[2] / "cluster.yaml"


def test_ray_accepts_the_cluster_file():
    validate_config(prepare_config(yaml.safe_load(CLUSTER_FILE.read_text())))


def test_ray_refuses_it_without_a_head():
    document = yaml.safe_load(CLUSTER_FILE.read_text())
    del document["head_node_type"]
    with pytest.raises(Exception, match="head_node_type"):
        validate_config(prepare_config(document))
