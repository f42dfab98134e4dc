"""Text from outside is parsed in two places, which have limits, and files from outside are opened in one place."""

from __future__ import annotations

import re

from tests.architecture.source_tree import ROOT, modules, sources

READERS = {"autosync/spec/reading.py", "autosync/yaml_text.py"}

OWN_WORDS = {
    "autosync/tune/options.py": "the options, of which pydantic has just made JSON",
    "autosync/tune/ray_tune.py": "a request, which the searcher beside it has written",
    "autosync/engine/tensorflow/capture/captured.py": "a captured model, which another process of the program sends",
    "autosync/engine/pytorch/capture.py": "a captured module, which another process of the program sends",
    "autosync/engine/pytorch/holders.py": "states of the optimizer, which the other ranks of the job send",
    "autosync/engine/pytorch/frames.py": "requests among processes of the program, which a token lets in",
    "autosync/engine/tensorflow/listening.py": "files of the kernel",
    "autosync/runs/documents.py": "a file of the package",
    "autosync/dataset/results.py": "metadata of a Parquet file, a number for each key",
    "studies/collect/card.py": "a row's versions, which are a column of records",
    "trials/emulate/ray_nodes.py": "what a process of the program's own prints",
}

PARSED = re.compile(r"\bjson\.loads?\(|\byaml\.(\w+_)?(load|parse|compose)(_\w+)?\(|model_validate_json|JSONDecoder")


def test_nothing_but_the_readers_parses_text_from_outside():
    calls = {
        str(file)
        for file in [*sources(), *modules("examples")]
        if PARSED.search((ROOT / file).read_text(encoding="utf-8"))
    }
    assert calls >= READERS
    assert calls - READERS <= set(OWN_WORDS), "read it with autosync.spec.read_json or parse_json, or parse_yaml"


def test_a_parser_elsewhere_would_be_noticed():
    for line in ("json.loads(text)", "json.load(file)", "yaml.safe_load(text)", "yaml.load(text, Loader)"):
        assert PARSED.search(line)
    assert not PARSED.search("parse_yaml(data) and parse_json(data)")


OPENER = "autosync/files/opening.py"

OWN_FILES = {
    "trials/capture_in_subprocess.py": "a file that its own process has written into a private folder",
    "autosync/engine/tensorflow/capture/captured.py": "an archive in memory",
    "autosync/engine/core/marked_processes.py": "files of the kernel",
    "autosync/zoo/characters.py": "modules of Python",
    "autosync/zoo/digits.py": "a file of the package",
    "autosync/engine/tensorflow/listening.py": "files of the kernel",
    "autosync/runs/documents.py": "a file of the package",
    "autosync/shadows.py": "files of the installed packages",
    "autosync/simulator/stored.py": "a file that its own process has written into a private folder",
    "studies/bench/versions.py": "modules of the package",
    "studies/proof/training.py": "what its own processes have written into its temporary folder",
    "autosync/pretraining/workers.py": "a file that its own process has written into a private folder",
    "trials/workers/memory.py": "files of the kernel",
    "trials/emulate/as_root.py": "files of the kernel",
    "trials/emulate/hosts.py": "files of the kernel",
    "trials/emulate/in_use.py": "files of the kernel",
    "trials/emulate/isolation.py": "files of the kernel",
    "trials/emulate/lifeline.py": "a pipe in the folder of an emulated cluster, which is its user's alone",
    "trials/emulate/listed.py": "files of the kernel",
    "trials/emulate/obstacles.py": "files of the kernel",
    "trials/emulate/own_folder.py": "a folder that is its user's alone, and the regular file in it, by descriptor",
    "trials/emulate/processes.py": "files of the kernel",
    "trials/emulate/quotas.py": "files of the kernel",
    "trials/emulate/ray_nodes.py": "a log in the folder of an emulated cluster, which is its user's alone",
    "trials/emulate/relay.py": "files of the kernel",
    "trials/emulate/requirements.py": "files of the kernel",
    "trials/emulate/status.py": "files of the kernel",
    "trials/guard.py": "files of the kernel",
    "trials/workers/ray_token.py": "the token, to take it away from other users without following a link",
    "autosync/files/writing.py": "a folder, to sync it",
}

OPENED = re.compile(
    r"\.read_(text|bytes)\(|\.open\((mode=)?\"r|(?<!def )(?<![\w.])open\((?!\))(?!.*\"[wax])|ZipFile\((?!stream)"
    r"|np\.(load|fromfile|memmap)\((?!BytesIO)|O_RDONLY|\btorch\.load\(|\bpq\.(read_table|ParquetFile)\((?!file)"
    r"|\btarfile\.|\bh5py\."
)

UNPICKLES = re.compile(
    r"\b(cloud)?pickle\.(load|Unpickler)|\bjoblib\b|\bshelve\b|\bmarshal\b|\btorch\.load\(|allow_pickle=True|safe_mode=False"
    r"|weights_only=False|\bload_model\(|enable_unsafe_deserialization|\bdill\b|yaml\.(unsafe|full)_load|yaml\.Loader\b"
    r"|shell=True|\bos\.(system|popen)\(|\btempfile\.mktemp\(|autoescape=False"
)


def found_by(pattern: re.Pattern[str]) -> set[str]:
    return {
        str(file)
        for file in sources()
        if pattern.search(re.sub(r"`[^`]*`", "", (ROOT / file).read_text(encoding="utf-8")))
    }


def test_nothing_but_the_opener_opens_files_from_outside():
    calls = found_by(OPENED)
    assert OPENER in calls
    assert calls - {OPENER} <= set(OWN_FILES), "open it with autosync.files.opened_to_read, or read_whole"
    assert set(OWN_FILES) <= calls, "these open nothing any more: take them off the list"


def test_nothing_unpickles_a_file_or_asks_a_shell():
    assert found_by(UNPICKLES) == set()


def test_an_opener_elsewhere_would_be_noticed():
    for line in (
        "path.read_text()",
        'path.open("rb")',
        "open(path)",
        "zipfile.ZipFile(path)",
        "np.load(path)",
        "os.open(path, os.O_RDONLY)",
    ):
        assert OPENED.search(line)
    for line in ("RunDirectory.open(options)", "zipfile.ZipFile(stream)", "np.load(BytesIO(data))"):
        assert not OPENED.search(line)


def test_code_run_from_a_file_is_detected():
    for line in (
        "pickle.load(file)",
        "torch.load(path)",
        "np.load(path, allow_pickle=True)",
        "run(command, shell=True)",
    ):
        assert UNPICKLES.search(line)


def test_files_in_the_folder_of_a_run_are_read_without_following_links():
    """`explain_input.py` reads the strategy file that the user names, so it may follow a link."""
    folders = [file for file in (ROOT / "autosync" / "runs").rglob("*.py") if file.name != "explain_input.py"]
    calls = [
        call[0]
        for file in [*folders, ROOT / "autosync/train/job.py", ROOT / "studies/collect/folder.py"]
        for call in re.finditer(r"\bread_(json|bytes)\(.*", (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert len(calls) > 4
    assert [call for call in calls if "through_links=False" not in call] == []
