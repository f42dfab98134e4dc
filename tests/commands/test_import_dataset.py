"""Files in the public AutoSync dataset's format become records."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosync.commands.import_dataset import main
from autosync.dataset import RecordStore
from autosync.dataset.autosync_import import import_dataset, read_graph_item, samples_in
from autosync.errors import DatasetError
from autosync.spec import AllReduce, ParameterServer, Partition, PowerSGD, RuntimeRecord
from tests.dataset.autosync_import.files import all_reduce, graph_item, node, parameter_server, strategy, write_sample

SHAPES = {"embedding": (100, 8), "dense/kernel": (8, 12), "dense/bias": (12,)}
ID = "20200601T080115M902347"
TWO_NODES = """
nodes:
  - address: 10.0.0.2
    gpus: [0, 1]
    ssh_config: all
    network_bandwidth: 25
  - address: 10.0.0.1
    gpus: [0, 1]
    chief: true
    network_bandwidth: 50
ssh:
  all: {username: ubuntu, key_file: /root/.ssh/id_rsa}
"""
GPUS = [f"10.0.0.{host}:GPU:{index}" for host in (2, 1) for index in (0, 1)]


def dataset(folder: Path, *nodes: bytes, sparse: tuple[str, ...] = (), replicas: list[str] | None = None) -> Path:
    """A dataset of one sample."""
    model = folder / "release" / "vgg16"
    write_sample(model / "cluster-A", ID, strategy(nodes, GPUS if replicas is None else replicas), TWO_NODES)
    (model / "graph_item").write_bytes(graph_item(SHAPES, sparse))
    return folder / "release"


def only(folder: Path, *nodes: bytes, **options: tuple[str, ...]) -> RuntimeRecord:
    """The record of the one sample with these decisions."""
    store = RecordStore.create(folder / "records")
    imported = import_dataset(dataset(folder, *nodes, **options), store, sparse_rows=40)
    assert not imported.passed_over
    (record,) = store.read()
    return record


def passed_over(folder: Path, *nodes: bytes, sparse: tuple[str, ...] = ()) -> str:
    store = RecordStore.create(folder / "records")
    imported = import_dataset(dataset(folder, *nodes, sparse=sparse), store, sparse_rows=40)
    assert imported.records == 0
    ((where, reason),) = imported.passed_over
    assert where == "vgg16/cluster-A"
    return reason


PLAIN = tuple(node(name, all_reduce(index // 2)) for index, name in enumerate(SHAPES))


def test_a_graph_item_tells_variables_in_graph_order_with_shapes_types_and_sparsity(tmp_path: Path) -> None:
    (tmp_path / "graph_item").write_bytes(graph_item(SHAPES, sparse=("embedding",)))
    assert read_graph_item(tmp_path / "graph_item").variables == (
        ("embedding", (100, 8), "float32", True),
        ("dense/kernel", (8, 12), "float32", False),
        ("dense/bias", (12,), "float32", False),
    )


def test_a_sample_becomes_a_record_of_its_model_cluster_and_times(tmp_path: Path) -> None:
    record = only(tmp_path, *PLAIN)
    assert (record.model.name, record.run, record.label) == ("vgg16", "autosync/vgg16@cluster-A", ID)
    assert record.step_seconds == (0.5, 0.25, 0.75)
    assert record.started_at == 1590998475.902347
    assert [variable.ready_order for variable in record.model.variables] == [2, 1, 0]
    chief, worker = record.cluster.nodes
    assert (chief.address, chief.gpus, worker.address) == ("10.0.0.1", 2, "10.0.0.2")
    rates = {(link.source, link.target): link.gbit_per_s for link in record.cluster.links}
    assert (rates["node0", "switch"].value, rates["switch", "node1"].value) == (50.0, 25.0)
    assert rates["node0", "switch"].source == "stated"
    assert record.strategy.replicas == ("node0/gpu:0", "node0/gpu:1", "node1/gpu:0", "node1/gpu:1")


def test_groups_are_buckets_and_servers_are_on_the_named_devices(tmp_path: Path) -> None:
    record = only(
        tmp_path,
        node("embedding", parameter_server("10.0.0.2:CPU:0", proxy=True)),
        node("dense/kernel", all_reduce(7)),
        node("dense/bias", all_reduce(7)),
    )
    assert record.strategy.by_name["embedding"].shards == (ParameterServer("node1/cpu:0", local_copy=True),)
    assert record.strategy.by_name["dense/kernel"].shards == (AllReduce(0),)
    assert record.strategy.by_name["dense/bias"].shards == (AllReduce(0),)


def test_a_cut_variable_has_a_synchronizer_a_shard(tmp_path: Path) -> None:
    shards = [parameter_server("10.0.0.1:CPU:0"), all_reduce(1), parameter_server("10.0.0.2:CPU:0")]
    record = only(tmp_path, PLAIN[0], node("dense/kernel", partitioner="1,3", parts=shards), PLAIN[2])
    kernel = record.strategy.by_name["dense/kernel"]
    assert kernel.partition == Partition(axis=1, shards=3)
    assert [type(shard) for shard in kernel.shards] == [ParameterServer, AllReduce, ParameterServer]


def test_power_sgd_is_kept_and_what_horovod_s_cast_left_as_it_was_is_not(tmp_path: Path) -> None:
    record = only(
        tmp_path,
        node("embedding", all_reduce(0, compressor=3)),
        node("dense/kernel", all_reduce(0, compressor=1)),
        node("dense/bias", all_reduce(0, compressor=2)),
    )
    shards = [variable.shards[0] for variable in record.strategy.variables]
    assert [shard.compressor for shard in shards] == [PowerSGD(1), None, None]
    assert [shard.group for shard in shards if isinstance(shard, AllReduce)] == [0, 1, 1]


def test_a_sparse_gradient_has_the_rows_given_and_a_bucket_of_its_own(tmp_path: Path) -> None:
    everything = tuple(node(name, all_reduce(0, compressor=3 * (name == "embedding"))) for name in SHAPES)
    record = only(tmp_path, *everything, sparse=("embedding",))
    embedding = record.model.by_name["embedding"]
    assert (embedding.sparse, embedding.rows_per_step) == (True, 40.0)
    groups = [variable.shards[0] for variable in record.strategy.variables]
    assert groups == [AllReduce(0), AllReduce(1), AllReduce(1)]


def test_decisions_for_variables_without_a_gradient_are_left_out(tmp_path: Path) -> None:
    record = only(tmp_path, *PLAIN, node("global_step", all_reduce(0)))
    assert set(record.strategy.by_name) == set(SHAPES)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ((node("embedding", parameter_server("10.0.0.1:CPU:0", sync=False)), *PLAIN[1:]), "asynchronously"),
        ((node("embedding"), *PLAIN[1:]), "'embedding' must have a synchronizer, or replicas would drift apart"),
        (PLAIN[1:], "'embedding' has no synchronizer; it would train differently on every replica"),
        ((node("embedding", parameter_server("10.0.0.9:CPU:0")), *PLAIN[1:]), "Device '10.0.0.9:CPU:0' is not in"),
        ((node("embedding", parameter_server("")), *PLAIN[1:]), "is on a parameter server without a name"),
        ((node("embedding", all_reduce(0), "2,2", [all_reduce(0)]), *PLAIN[1:]), "partitioner '2,2'; exactly one"),
        ((node("embedding", all_reduce(0), "3,1", [all_reduce(0)]), *PLAIN[1:]), "has 3 shard(s) but 1 synchronizer"),
        ((node("embedding", all_reduce(0, compressor=9)), *PLAIN[1:]), "compressor number 9; known are 0 to 3"),
    ],
)
def test_a_strategy_without_a_counterpart_is_passed_over_with_the_reason(
    tmp_path: Path, nodes: tuple[bytes, ...], reason: str
) -> None:
    assert reason in passed_over(tmp_path, *nodes)


def test_both_names_of_the_folder_and_suffixes_of_files_are_found(tmp_path: Path) -> None:
    release = dataset(tmp_path, *PLAIN)
    second_folder = release / "vgg16" / "cluster-B"
    write_sample(second_folder, "named", strategy(PLAIN, GPUS), TWO_NODES, folder="strategy")
    (second_folder / "runtime" / "named").rename(second_folder / "runtime" / "named.yml")
    assert [(sample.cluster, sample.id) for sample in samples_in(release)] == [
        ("cluster-A", ID),
        ("cluster-B", "named"),
    ]
    store = RecordStore.create(tmp_path / "records")
    assert import_dataset(release, store).records == 2
    assert sorted(record.started_at for record in store.read())[0] == 0.0


def test_importing_twice_adds_nothing_and_a_mean_alone_is_one_step(tmp_path: Path) -> None:
    release = dataset(tmp_path, *PLAIN)
    (release / "vgg16" / "cluster-A" / "runtime" / ID).write_text("average: 0.125\nruntime: []\n")
    store = RecordStore.create(tmp_path / "records")
    for _ in range(2):
        import_dataset(release, store)
    (record,) = store.read()
    assert record.step_seconds == (0.125,)


def test_what_is_wrong_with_the_files_is_said(tmp_path: Path) -> None:
    store = RecordStore.create(tmp_path / "records")
    with pytest.raises(DatasetError, match=r"a folder per model with a file 'graph_item' in it, but .* has none; pass"):
        import_dataset(tmp_path, store)
    release = dataset(tmp_path, *PLAIN, sparse=("embedding",))
    with pytest.raises(
        DatasetError, match=r"'vgg16' has sparse gradients \(for example 'embedding'\).*pass --sparse-rows"
    ):
        import_dataset(release, store)
    item = release / "vgg16" / "graph_item"
    item.write_bytes(b"\xff\xff\xff no message")
    with pytest.raises(DatasetError, match=r"graph_item must hold a GraphItem of AutoDist, but cannot be parsed"):
        import_dataset(release, store)
    item.write_bytes(graph_item(SHAPES, dtype=9))
    with pytest.raises(
        DatasetError, match=r"variable 'embedding' has shape \(100, 8\) and type number 9; a variable's"
    ):
        import_dataset(release, store)
    item.write_bytes(graph_item(SHAPES, op="Const"))
    with pytest.raises(DatasetError, match=r"has a gradient for 'embedding', which is a Const instead of a variable"):
        import_dataset(release, store)
    item.write_bytes(graph_item({}))
    with pytest.raises(DatasetError, match=r"must name gradients to synchronize, but names none"):
        import_dataset(release, store)
    item.write_bytes(graph_item(SHAPES))
    (release / "vgg16" / "cluster-A" / "runtime" / ID).unlink()
    with pytest.raises(DatasetError, match=r"needs a file of its name in .*runtime, which has none; is the copy compl"):
        import_dataset(release, store)


@pytest.mark.parametrize(
    ("kind", "content", "reason"),
    [
        ("runtime", "[1, 2]", "A runtime file must hold 'average' and a list 'runtime'"),
        ("resource_spec", "nodes: 3", "must be a resource_spec of AutoDist"),
        ("resource_spec", "nodes: []", "must be a resource_spec of AutoDist, but lists no node"),
        ("strategies", "\x0f\x0f", "must hold a Strategy of AutoDist, but cannot be parsed"),
    ],
)
def test_a_sample_with_a_broken_file_is_passed_over(tmp_path: Path, kind: str, content: str, reason: str) -> None:
    release = dataset(tmp_path, *PLAIN)
    (release / "vgg16" / "cluster-A" / kind / ID).write_text(content)
    imported = import_dataset(release, RecordStore.create(tmp_path / "records"))
    ((_, told),) = imported.passed_over
    assert reason in told


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "records"
    assert main([str(dataset(tmp_path, *PLAIN)), "--out", str(out)]) == 0
    assert f"1 samples are now in {out}; 0 were passed over." in capsys.readouterr().out
    assert len(RecordStore(out).read()) == 1
    assert main([str(tmp_path / "nothing"), "--out", str(out)]) == 2
    assert "import: AutoSync's dataset has a folder per model" in capsys.readouterr().err
