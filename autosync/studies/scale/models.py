"""The models: captured once, in a process that ends, and kept as JSON; with a GPU's profile where one is given."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from autosync.errors import AutosyncError, SpecError
from autosync.files import inner_folder, write_atomically
from autosync.spec import ModelSpec, canonical_json, read_device_profile, read_json

MODELS = ("bert-large", "vgg16", "resnet101", "densenet121", "inceptionv3", "ncf", "transformer-lm")


def model_of(name: str, folder: Path, profiles: Path | None) -> ModelSpec:
    """The zoo's model of that name, from `folder` or captured into it, with its profile in the folder `profiles`.

    That is NAME.json there, or else NAME_tf32.json, as they are shipped. A model without goes by its flops. Raises
    `AutosyncError` where it cannot be captured.
    """
    file = folder / f"{name}.json"
    if not file.exists():
        inner_folder(folder.parent, folder.name)
        done = subprocess.run([sys.executable, "-m", __name__, name, str(file)], stderr=subprocess.PIPE, text=True)
        if done.returncode or not file.exists():
            last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
            raise AutosyncError(f"Model {name!r} must be captured once, which failed: {last[0]}")
    try:
        model = ModelSpec.from_json(read_json(file, f"Model file {str(file)!r}"))
    except OSError as error:
        raise AutosyncError(f"Model file {str(file)!r} cannot be read: {error.strerror}; remove it.") from None
    wanted = [] if profiles is None else [profiles / f"{name}{ending}.json" for ending in ("", "_tf32")]
    profile = next((file for file in wanted if file.exists()), None)
    return model if profile is None else replace(model, device_profile=read_device_profile(profile))


def check_models(names: tuple[str, ...], profiles: Path | None) -> None:
    """Raise `SpecError` unless there are these models, and a folder of profiles where one is named."""
    for name in names:
        if name not in MODELS:
            raise SpecError(f"Models at scale are {', '.join(MODELS)}; {name!r} is none of them.")
    if profiles is not None and not profiles.is_dir():
        raise SpecError(
            f"Profiles are a folder with a file MODEL.json or MODEL_tf32.json each, which {str(profiles)!r} is not."
        )


def _capture(name: str, file: Path) -> None:
    from autosync.engine.capture.capturing import capture
    from autosync.engine.loading import load_tensorflow, quiet_log
    from autosync.engine.zoo import build_task

    with quiet_log():
        load_tensorflow()
        write_atomically(file, canonical_json(capture(build_task(name)).spec.to_json()))


if __name__ == "__main__":
    _capture(sys.argv[1], Path(sys.argv[2]))
