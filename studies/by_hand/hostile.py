"""Hostile files of several kinds, as a user, a broken disk or an attacker may give them to a command that reads
files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["KINDS", "cluster_texts", "documents", "yaml_texts"]

DEEP = 100_000
LONG = "x" * 10_000_000
DIGITS = "9" * 10_000_000

Path = tuple[str | int, ...]


def documents(good: Mapping[str, Any], places: Mapping[str, Path]) -> dict[str, bytes]:
    """Return malformed JSON files, and variants of `good` with a bad value in each of the named `places`."""
    text = json.dumps(good)
    body = text.removeprefix("{")
    files: dict[str, bytes] = {
        "empty": b"",
        "empty object": b"{}",
        "null": b"null",
        "a list": b"[1]",
        "half": text[: len(text) // 2].encode(),
        "no text": b"\xff\xfe\xff\x00" * 1000,
        "zeros": bytes(1 << 20),
        "20 MB of spaces": b" " * 20_000_000,
        "200 MB of spaces": b" " * 200_000_000,
        "nested brackets": b"[" * DEEP,
        "nested objects": b'{"a":' * DEEP,
        "nested in a field": f'{{"nested": {"[" * DEEP}{"]" * DEEP}, {body}'.encode(),
        "millions of values": f'{{"many": [{"0," * 7_000_000}0], {body}'.encode(),
        "millions of objects": f'{{"many": [{"{}," * 5_000_000}0], {body}'.encode(),
        "quotes": b'"' * 15_000_000,
        "backslashes": b"\\" * 15_000_000,
        "an endless text": f'{{"text": "{LONG}'.encode(),
        "a key twice": f'{{"a": 1, "a": 2, {body}'.encode(),
        "a long key": f'{{"{LONG}": 1, {body}'.encode(),
        "a long key twice": f'{{"{LONG[:7_000_000]}": 1, "{LONG[:7_000_000]}": 2, {body}'.encode(),
        "half a character": f'{{"\\ud800": 1, {body}'.encode(),
    }
    values: dict[str, str] = {
        "of ten million digits": DIGITS,
        "infinite": "1e999",
        "not a number": "NaN",
        "an object": '{"a": {"b": [1]}}',
        "a list of lists": "[[[1]], {}]",
        "of ten megabytes": f'"{LONG}"',
        "null": "null",
        "huge": "1e308",
        "a long number": "9" * 60,
        "negative": "-1",
        "true": "true",
    }
    for name, place in places.items():
        for fault, value in values.items():
            files[f"{name} {fault}"] = _with(good, place, value).encode()
    return files


def _with(document: Mapping[str, Any], place: Path, value: str) -> str:
    """Return the JSON of `document` with the text `value` in `place`."""
    copy = json.loads(json.dumps(document))
    inner = copy
    for step in place[:-1]:
        inner = inner[step]
    mark = "@here@"
    inner[place[-1]] = mark
    return json.dumps(copy).replace(f'"{mark}"', value)


def yaml_texts(body: str, key: str) -> dict[str, bytes]:
    """Return malformed YAML files, built from the valid document `body` and its key `key`, which is in no other
    file."""
    base = ", ".join(f"n{index}: 1" for index in range(30))
    laughs = "l0: &l0 [a, a, a]\n" + "".join(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}, *l{n - 1}]\n" for n in range(1, 30))
    merged = "m0: &m0 {a: 1}\n" + "".join(f"m{n}: &m{n} {{<<: [*m{n - 1}, *m{n - 1}]}}\n" for n in range(1, 30))
    files = {
        "empty": "",
        "a list": "- a\n",
        "a text": "a",
        "half": body[: len(body) // 2] + "[{",
        "no text": b"\xff\xfe\xff\x00" * 1000,
        "zeros": bytes(1 << 19),
        "20 MB of spaces": b" " * 20_000_000,
        "nested brackets": "[" * DEEP,
        "nested maps": "{a: " * DEEP,
        "nested dashes": "- " * DEEP,
        "nested in a key": f"{body}\nmore: {'[' * DEEP}",
        "aliases that multiply": laughs + body,
        "merge keys that multiply": merged + body,
        "merge keys of many": f"base: &b {{{base}}}\nmore: [{'{<<: *b}, ' * 30_000}]\n{body}",
        "an alias of itself": f"more: &a [*a]\n{body}",
        "two million nodes": f"more: [{'a,' * 2_000_000}]\n{body}",
        "half a million nodes": f"more: [{'a,' * 500_000}]\n{body}",
        "two million short lines": "- a\n" * 2_000_000,
        "a key twice": f"{body}\n{key}: 1\n{key}: 1",
        "a long key": f"{'k' * 1000}: 1\n{body}",
        "a very long key": f"? {'k' * 900_000}\n: 1\n{body}",
        "a long key twice": f"{'k' * 1000}: 1\n{'k' * 1000}: 1\n{body}",
        "a long anchor": f"more: &{'a' * 900_000} 1\n{body}",
        "a long tag": f"more: !{'a' * 900_000} 1\n{body}",
        "a tag of Python": f"more: !!python/object/apply:os.system [ls]\n{body}",
        "a number of many digits": f"more: {'9' * 900_000}\n{body}",
        "a hexadecimal number": f"more: 0x{'f' * 900_000}\n{body}",
        "sixtieths": f"more: {'1:' * 400_000}1\n{body}",
        "no digits": f"more: 0x_\n{body}",
        "a day that is none": f"more: 2001-99-99\n{body}",
        "a list for a key": f"? [a, b]\n: 1\n{body}",
        "several documents": f"{body}\n---\n{body}",
    }
    return {name: text if isinstance(text, bytes) else text.encode() for name, text in files.items()}


def cluster_texts() -> dict[str, bytes]:
    """Return cluster files that are valid YAML, but invalid or too large as clusters."""
    nodes = {
        "10^9 workers": "{workers: 1000000000}",
        "10^9 GPUs": "{gpus: 1000000000}",
        "10^9 nodes": "{count: 1000000000}",
        "2000 nodes": "{count: 500}, {count: 500}, {count: 500}, {count: 500}",
        "workers in sum": "{count: 500, workers: 1000}",
        "workers of many digits": f"{{workers: {'9' * 60}}}",
        "a list of workers": "{workers: [1]}",
        "an object of workers": "{workers: {a: 1}}",
        "infinite cores": "{cores: .inf}",
        "huge cores": "{cores: 1.0e+300}",
        "tiny cores": "{cores: 1.0e-320}",
        "no cores": "{cores: .nan}",
        "a rate of many digits": f"{{up: {'9' * 900_000}mbit}}",
        "a tiny rate": f"{{up: 0.{'0' * 300}1mbit}}",
        "a latency of many digits": f"{{latency: {'9' * 900_000}us}}",
        "a rate that is an object": "{up: {a: 1}}",
        "a long name": f"{{name: {'n' * 900_000}}}",
        "a long address": f"{{address: {'1' * 900_000}}}",
        "a long rack": f"{{rack: {'r' * 900_000}}}",
        "a node that is a list": "[[1]]",
        "a node that is a number": "7",
        "many wrong nodes": ", ".join(["{upp: 1}"] * 30_000),
        "many nodes of one name": ", ".join(["{name: a}"] * 30_000),
    }
    files = {name: f"nodes: [{text}]\n" for name, text in nodes.items()}
    files["nodes that are a number"] = "nodes: 7\n"
    files["nodes that are a map"] = "nodes: {a: {}}\n"
    files["30000 racks"] = f"nodes: [{{}}]\nracks: {{{', '.join(f'r{index}: {{}}' for index in range(30_000))}}}\n"
    return {name: text.encode() for name, text in files.items()}


def _clusters(good: Mapping[str, Any]) -> dict[str, bytes]:
    """Return run files with an invalid or too large cluster in JSON."""
    cluster = good["cluster"]
    node, link = cluster["nodes"][0], cluster["links"][0]
    nodes = [node | {"name": f"n{index}"} for index in range(5000)]
    figure = {"value": 1.0, "source": "stated"}
    chain = [f"s{index}" for index in range(400)]
    ends = list(zip(["n0", *chain], [*chain, "n1"], strict=True))
    path = [link | {"source": source, "target": target} for source, target in [*ends, *((b, a) for a, b in ends)]]
    replaced: dict[str, Any] = {
        "10^9 workers": {"nodes": [node | {"workers": 10**9}]},
        "10^9 GPUs": {"nodes": [node | {"gpus": 10**9}]},
        "5000 nodes": {"nodes": nodes},
        "20000 switches": {"switches": [f"s{index}" for index in range(20_000)]},
        "50000 links": {"links": [link] * 50_000},
        "a long chain of switches": {"nodes": nodes[:2], "switches": chain, "links": path},
        "nodes that are numbers": {"nodes": [1, 2]},
        "nodes that are an object": {"nodes": {"a": node}},
        "switches that are objects": {"switches": [{"a": 1}]},
        "links that are texts": {"links": ["a"]},
        "a node without a name": {"nodes": [{}]},
        "a long name": {"nodes": [node | {"name": LONG}]},
        "a long address": {"nodes": [node | {"address": LONG}]},
        "a long switch": {"switches": [LONG]},
        "a link to a long name": {"links": [link | {"target": LONG}]},
        "a figure that is a list": {"links": [link | {"gbit_per_s": [1.0]}]},
        "a tiny rate": {"links": [link | {"gbit_per_s": figure | {"value": 5e-324}}]},
        "a huge rate": {"links": [link | {"gbit_per_s": figure | {"value": 1e308}}]},
        "a long source": {"links": [link | {"gbit_per_s": figure | {"source": LONG}}]},
        "cores that are a list": {"nodes": [node | {"cores": [4.0]}]},
        "huge cores": {"nodes": [node | {"cores": 1e308}]},
        "no links": {"links": []},
        "an unknown long field": {LONG: 1},
    }
    return {name: json.dumps({**good, "cluster": {**cluster, **change}}).encode() for name, change in replaced.items()}


def _strategies(good: Mapping[str, Any]) -> dict[str, bytes]:
    """Return strategies that are valid JSON, but invalid or too large as strategies."""
    variable = good["variables"][0]
    many = [variable | {"variable": f"v{index}"} for index in range(60_000)]
    server = {"parameter_server": "node0/cpu:0"}
    replaced: dict[str, Any] = {
        "replicas that are objects": {"replicas": [{"a": 1}]},
        "replicas that are numbers": {"replicas": [1, 2]},
        "a replica of ten megabytes": {"replicas": [LONG]},
        "a replica of many digits": {"replicas": [f"node0/cpu:{'9' * 6000}"]},
        "a replica far up": {"replicas": ["node0/cpu:999999999"]},
        "200000 replicas": {"replicas": [f"node{index}/cpu:0" for index in range(200_000)]},
        "200000 replicas of one node": {"replicas": [f"node0/cpu:{index}" for index in range(200_000)]},
        "60000 variables, one twice": {"variables": [*many, many[-1]]},
        "60000 variables": {"variables": many},
        "shards without end": {"variables": [variable | {"partition": {"axis": 0, "shards": 10**50}}]},
        "100000 shards": {
            "variables": [variable | {"partition": {"axis": 0, "shards": 100_000}, "shards": [server] * 100_000}]
        },
        "a server of ten megabytes": {"variables": [variable | {"shards": [{"parameter_server": LONG}]}]},
    }
    return {name: json.dumps({**good, **change}).encode() for name, change in replaced.items()}


def _strategy_files(good: Mapping[str, Any]) -> dict[str, bytes]:
    places: dict[str, Path] = {
        "replica": ("replicas", 0),
        "variable": ("variables", 0, "variable"),
        "shards": ("variables", 0, "shards"),
    }
    return documents(good, places) | _strategies(good)


def _run_files(good: Mapping[str, Any]) -> dict[str, bytes]:
    places: dict[str, Path] = {
        "name": ("name",),
        "digest": ("model_digest",),
        "options": ("options",),
        "cluster": ("cluster",),
        "asked": ("asked",),
    }
    return documents(good, places)


def _search_files(good: Mapping[str, Any]) -> dict[str, bytes]:
    return documents(good, {"searcher": ("searcher",), "seconds": ("seconds_gone",)})


def _result_files(good: Mapping[str, Any]) -> dict[str, bytes]:
    places: dict[str, Path] = {
        "seconds": ("wall_seconds",),
        "median": ("strategies", 0, "median_seconds"),
        "interval": ("strategies", 0, "median_interval_seconds"),
        "label": ("strategies", 0, "label"),
        "verdict": ("verdict",),
        "speed-up": ("verdict", "speedup"),
        "trials": ("trials",),
    }
    return documents(good, places)


KINDS: dict[str, tuple[str, Callable[[Mapping[str, Any]], dict[str, bytes]]]] = {
    "strategy": ("strategy.json", _strategy_files),
    "run": ("run.json", _run_files),
    "cluster in JSON": ("run.json", _clusters),
    "search": ("search.json", _search_files),
    "result": ("result.json", _result_files),
}
"""For each kind of JSON file, its name in a run and the function that makes hostile variants of a valid file."""
