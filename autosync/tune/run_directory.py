"""The directory of one run: what was asked, where the search stands, what came out. JSON only."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosync.spec import ClusterSpec, Strategy, parse_json
from autosync.tune.options import OptionsError, TuneOptions

__all__ = ["RunDirectory"]


@dataclass(frozen=True)
class RunDirectory:
    """Files of the run called `path.name`. Every file is replaced in one go, so a kill leaves the old or the new."""

    path: Path

    @classmethod
    def open(cls, options: TuneOptions) -> RunDirectory:
        """A new directory, or with `resume` the one of a run with the same options. Raises `OptionsError`."""
        run = cls(options.out)
        known = run._file("run.json").exists()
        if options.resume and not known:
            raise OptionsError(f"--resume needs a run to go on from, but {options.out} holds none; leave it out.")
        if known and not options.resume:
            raise OptionsError(f"--out {options.out} holds a run already; add --resume to go on, or name another.")
        if options.resume:
            before = run._read("run.json")["options"]
            for name, value in options.identity().items():
                if before.get(name) != value:
                    raise OptionsError(
                        f"--resume goes on with the same options, but --{name.replace('_', '-')} was "
                        f"{before.get(name)!r} and now is {value!r}."
                    )
            return run
        try:
            options.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionsError(f"--out {options.out} cannot be made: {error.strerror}.") from None
        return run

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def strategy_file(self) -> Path:
        return self._file("strategy.json")

    @property
    def result_file(self) -> Path:
        return self._file("result.json")

    @property
    def tune_directory(self) -> Path:
        """Where Ray Tune keeps its own results."""
        return self.path.resolve() / "tune"

    def write_run(self, options: TuneOptions, model_digest: str, cluster: ClusterSpec) -> None:
        self._write(
            "run.json", {"options": options.identity(), "model_digest": model_digest, "cluster": cluster.to_json()}
        )

    def read_run(self) -> tuple[str, ClusterSpec]:
        """Digest of the model and the cluster of the run so far."""
        document = self._read("run.json")
        return str(document["model_digest"]), ClusterSpec.from_json(document["cluster"])

    def write_state(self, state: dict[str, Any]) -> None:
        self._write("search.json", state)

    def read_state(self) -> dict[str, Any] | None:
        return self._read("search.json") if self._file("search.json").exists() else None

    def write_strategy(self, strategy: Strategy, summary: list[str]) -> None:
        """`strategy.json`, one line a variable so that a person can read it; `summary` is for that person alone."""
        document = strategy.to_json()
        lines = ["{", f'  "format": {json.dumps(document["format"])},']
        lines += ['  "summary": [', ",\n".join(f"    {json.dumps(each)}" for each in summary), "  ],"]
        lines += [f'  "replicas": {json.dumps(document["replicas"])},', '  "variables": [']
        lines += [",\n".join(f"    {json.dumps(each)}" for each in document["variables"]), "  ]", "}"]
        self._replace("strategy.json", "\n".join(lines) + "\n")

    def write_result(self, result: dict[str, Any]) -> None:
        self._replace("result.json", json.dumps(result, indent=2) + "\n")

    def _file(self, name: str) -> Path:
        return self.path / name

    def _read(self, name: str) -> dict[str, Any]:
        return parse_json(self._file(name).read_bytes(), str(self._file(name)))

    def _write(self, name: str, document: dict[str, Any]) -> None:
        self._replace(name, json.dumps(document))

    def _replace(self, name: str, text: str) -> None:
        temporary = self._file(f".{name}.{os.getpid()}")
        temporary.write_text(text)
        os.replace(temporary, self._file(name))
