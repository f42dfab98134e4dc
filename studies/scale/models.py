"""The models: captured once, in a separate process, and kept as JSON; with a GPU profile if one is given."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from autosync.errors import AutosyncError, SpecError
from autosync.files import inner_folder, write_atomically
from autosync.spec import ModelSpec, canonical_json, read_device_profile, read_json

MODELS = ("bert-large", "vgg16", "resnet101", "densenet121", "inceptionv3", "ncf", "transformer-lm")


def model_of(name: str, folder: Path, profiles: Path | None) -> ModelSpec:
    """Return the zoo's model of that name, read from `folder` or captured into it, with its profile from `profiles`.

    The profile is the file NAME.json there, or else NAME_tf32.json, as in the shipped folders. Without a profile,
    passes are estimated by flops. Raises `AutosyncError` if the model cannot be captured.
    """
    file = folder / f"{name}.json"
    if not file.exists():
        inner_folder(folder.parent, folder.name)
        done = subprocess.run([sys.executable, "-m", __name__, name, str(file)], stderr=subprocess.PIPE, text=True)
        if done.returncode or not file.exists():
            last = done.stderr.strip().splitlines()[-1:] or ["it gave no output"]
            raise AutosyncError(f"Model {name!r} must be captured once, but the capture failed: {last[0]}")
    try:
        model = ModelSpec.from_json(read_json(file, f"Model file {str(file)!r}"))
    except OSError as error:
        raise AutosyncError(f"Model file {str(file)!r} cannot be read: {error.strerror}; remove it.") from None
    wanted = [] if profiles is None else [profiles / f"{name}{ending}.json" for ending in ("", "_tf32")]
    profile = next((file for file in wanted if file.exists()), None)
    return model if profile is None else replace(model, device_profile=read_device_profile(profile))


def check_models(names: tuple[str, ...], profiles: Path | None) -> None:
    """Raise `SpecError` unless all names are models, and `profiles` is a folder or None."""
    for name in names:
        if name not in MODELS:
            raise SpecError(f"--models needs names among {', '.join(MODELS)}, but has {name!r}.")
    if profiles is not None and not profiles.is_dir():
        raise SpecError(
            f"--profiles needs a folder with a file MODEL.json or MODEL_tf32.json per model, but has {str(profiles)!r}."
        )


def _capture(name: str, file: Path) -> None:
    from autosync.engine.tensorflow.capture.capturing import capture
    from autosync.engine.tensorflow.loading import load_tensorflow, quiet_log
    from autosync.zoo import build_task

    with quiet_log():
        load_tensorflow()
        write_atomically(file, canonical_json(capture(build_task(name)).spec.to_json()))


if __name__ == "__main__":
    _capture(sys.argv[1], Path(sys.argv[2]))
