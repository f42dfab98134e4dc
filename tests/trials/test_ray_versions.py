"""A cluster with other versions of Ray or Python is refused in a sentence."""

from __future__ import annotations

import platform

import pytest
import ray
from ray._private.utils import check_version_info

from trials.workers.ray_versions import version_mismatch


def test_rays_own_refusal_becomes_a_sentence_with_both_versions() -> None:
    with pytest.raises(RuntimeError) as refusal:
        check_version_info({"ray_version": "2.1.0", "python_version": "3.9.7"}, "node 127.0.0.1")
    assert str(version_mismatch(refusal.value, "10.0.0.1:6379")) == (
        "A program that joins a Ray cluster needs the cluster's versions of Ray and Python, to the last digit; the "
        f"cluster at '10.0.0.1:6379' has Ray 2.1.0 and Python 3.9.7, and this program Ray {ray.__version__} and Python "
        f"{platform.python_version()}. Install autosync here for those versions."
    )


def test_another_error_of_ray_stays_as_it_is() -> None:
    assert version_mismatch(RuntimeError("Ray: is gone"), "10.0.0.1:6379") is None
