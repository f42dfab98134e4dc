"""A race: the order of runs, the predicted effect of combinations, and the verdict."""

from __future__ import annotations

import math
import shlex
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from autosync.commands.race import main
from autosync.errors import AutosyncError
from autosync.race.candidates import best_baseline, compress_dense
from autosync.race.command import interruption_lines
from autosync.race.effects import effects, predict_effect
from autosync.race.job import end_race
from autosync.race.options import RaceOptions
from autosync.race.plan import PlannedRun, Race
from autosync.race.times import speedup
from autosync.race.verdict import verdict
from autosync.race.words import outcome_lines
from autosync.report.race import write_race_report
from autosync.runs.claim import claim_folder
from autosync.runs.race_folder import RaceFolder
from autosync.spec import PLAIN, ClusterSpec, Target, TopK
from autosync.tune.ran_on import ran_on
from tests.commands.printed_commands import check_command, commands_on
from tests.race.runs import CLUSTER, MODEL, OFFERS, SETTING, TARGET, failed, new_race, run_of

STEPS, STEP_SECONDS = 100, 0.1
FACTORS = {"filter": (1.1, 0.5), "gravac": (1.1, 0.6), "fedavg": (30.0, 0.3), "dynamic batching": (1.0, 0.9)}
"""Factors of the parts on steps and on seconds a step, in this made-up world; other parts have none."""


def thin_at(cluster: ClusterSpec, node: str) -> ClusterSpec:
    """Return `cluster` with links at a tenth of their rate around `node`."""
    thin = [replace(link.gbit_per_s, value=link.gbit_per_s.value / 10) for link in cluster.links]
    links = zip(cluster.links, thin, strict=True)
    kept = [replace(link, gbit_per_s=rate) if node in (link.source, link.target) else link for link, rate in links]
    return replace(cluster, links=tuple(kept))


def run(race: Race, planned: PlannedRun) -> None:
    steps, seconds = float(STEPS), STEP_SECONDS * (1 + 0.02 * planned.seed)
    for part in planned.candidate.parts:
        of_steps, of_seconds = FACTORS.get(part.name, (1.0, 1.0))
        steps, seconds = steps * of_steps, seconds * of_seconds
    race.note(run_of(planned, round(steps / 10) * 10, seconds))


def run_all(race: Race) -> list[tuple[str, int]]:
    order = []
    while (planned := race.next()) is not None:
        order.append((planned.candidate.name, planned.seed))
        run(race, planned)
    return order


class TestCandidates:
    def test_all_of_the_menu_fit_a_plain_all_reduce(self) -> None:
        assert [candidate.name for candidate in SETTING.candidates(OFFERS)] == [
            "plain",
            *(offer.name for offer in OFFERS),
        ]

    def test_gravac_is_all_reduced_and_compressed(self) -> None:
        served = replace(SETTING, base=best_baseline(MODEL, CLUSTER)[1])
        by_name = {candidate.name: candidate for candidate in served.candidates(OFFERS)}
        assert by_name["plain"].strategy == served.base
        assert by_name["filter"].strategy == replace(served.base, discipline=OFFERS[3].discipline)
        shards = [shard for _, _, shard in by_name["gravac"].strategy.shards()]
        assert all(shard.compressor == TopK(0.1) for shard in shards)
        assert by_name["plain"].strategy.discipline == PLAIN

    def test_combinations_are_of_compatible_offers(self) -> None:
        names = {combination.name for combination in SETTING.combinations(OFFERS, 2)}
        assert "filter + gravac" in names
        assert "filter + dynamic batching" in names
        assert not {"filter + local sgd", "local sgd + fedavg", "gravac + dgc"} & names
        assert "local sgd + dynamic batching" not in names, "loads that follow times are for those that always meet"

    def test_top_k_entries_are_sent_by_the_requested_algorithm(self) -> None:
        sent = [shard for _, _, shard in compress_dense(SETTING.base, MODEL, TopK(0.01, "star"), "tree").shards()]
        assert sent
        assert all(shard.compressor == TopK(0.01, "star") and shard.algorithm == "tree" for shard in sent)

    def test_fewer_workers_are_those_without_which_a_step_takes_longest(self) -> None:
        slow = replace(SETTING, cluster=thin_at(CLUSTER, "node1"))
        by_name = {candidate.name: candidate for candidate in slow.candidates(OFFERS)}
        three, two = by_name["1 worker fewer"].strategy, by_name["2 workers fewer"].strategy
        assert three.replicas == tuple(replica for replica in SETTING.base.replicas if not replica.startswith("node1/"))
        assert len(two.replicas) == 2
        assert set(two.replicas) < set(three.replicas)
        assert three.discipline == PLAIN
        pairs = {combination.name for combination in slow.combinations(OFFERS, 2)}
        assert "local sgd + 1 worker fewer" in pairs
        assert "1 worker fewer + 2 workers fewer" not in pairs
        assert "1 worker fewer + 2 x batch" not in pairs, "loads are one for each replica"


class TestOrder:
    def test_runs_side_by_side_are_of_the_first_seed_until_all_of_it_are_known(self) -> None:
        race = new_race()
        under_way: dict[tuple[str, int], PlannedRun] = {}
        while (planned := race.next(under_way)) is not None:
            under_way[planned.candidate.name, planned.seed] = planned
        assert list(under_way) == [(candidate.name, 0) for candidate in race.named]
        for key in list(under_way)[1:]:
            run(race, under_way.pop(key))
            assert race.next(under_way) is None, "combinations follow from all runs on the first seed"
        run(race, under_way.popitem()[1])
        combined = race.next()
        assert combined is not None
        assert " + " in combined.candidate.name
        assert race.next({(combined.candidate.name, 0): combined}) is None

    def test_side_by_side_the_same_runs_are_made_as_one_after_the_other(self) -> None:
        one_by_one, race, under_way = run_all(new_race()), new_race(), {}
        while True:
            planned = race.next(under_way)
            if planned is not None and len(under_way) < 3:
                under_way[planned.candidate.name, planned.seed] = planned
            elif under_way:
                run(race, under_way.pop(next(iter(under_way))))
            else:
                break
        assert set(race.done) == set(one_by_one)

    def test_all_train_on_the_first_seed_then_combinations_then_seed_by_seed(self) -> None:
        race = new_race()
        order = run_all(race)
        first = [name for name, seed in order[: len(race.named)]]
        assert first == [candidate.name for candidate in race.named]
        combined = [name for name, seed in order if " + " in name and seed == 0]
        assert combined[0] == "filter + gravac", "which multiplies the two best"
        assert len(combined) <= 4
        seeds = [seed for _, seed in order]
        assert seeds == sorted(seeds)
        assert order[seeds.index(1)] == ("plain", 1)
        assert len(order) == len(set(order))

    def test_a_race_that_is_taken_up_again_goes_on_alike(self) -> None:
        through, again = new_race(), new_race()
        order = run_all(through)
        for record in list(through.done.values())[:25]:
            again.note(record)
        assert run_all(again) == order[25:]

    def test_it_ends_with_its_runs(self) -> None:
        assert len(run_all(new_race(runs=7))) == 7

    def test_a_failed_candidate_is_not_run_again_and_stops_nothing(self) -> None:
        race = new_race()
        while (planned := race.next()) is not None:
            if planned.candidate.name == "filter":
                race.note(failed(planned))
            else:
                run(race, planned)
        assert race.times.faults == {"filter": "It failed."}
        assert sum(name == "filter" for name, _ in race.done) == 1
        outcome = verdict(race)
        assert outcome is not None
        assert "filter" not in [result.candidate.name for result in outcome.results]

    def test_a_run_that_was_lost_with_a_process_is_made_again_once(self) -> None:
        race = new_race()
        tries = []
        while (planned := race.next()) is not None:
            if planned.candidate.name in ("filter", "bandit") and planned.seed == 0:
                tries.append(planned.candidate.name)
                if planned.candidate.name == "bandit" or tries.count("filter") == 1:
                    race.note(failed(planned, "lost"))
                    continue
            run(race, planned)
        assert tries == ["filter", "filter", "bandit", "bandit"]
        assert race.times.faults == {"bandit": "It failed."}
        assert ("filter", 1) in race.done

    def test_plain_runs_have_no_rival_and_others_the_fastest_of_their_seed(self) -> None:
        race = new_race()
        run_all(race)
        assert race.rival(1, "plain") == ()
        fastest = min(
            record.seconds for (_, seed), record in race.done.items() if seed == 1 and record.outcome == "reached"
        )
        assert race.rival(1, "bandit")[-1].seconds == fastest


class TestVerdict:
    def test_the_winner_is_the_fastest_over_seeds_that_did_not_choose_it(self) -> None:
        race = new_race()
        run_all(race)
        outcome = verdict(race)
        assert outcome is not None
        assert outcome.winner.name == "filter + gravac"
        assert outcome.proven
        assert outcome.judged == (1, 2)
        assert outcome.results[0].over_plain.value == pytest.approx(1 / (1.1 * 0.5 * 1.1 * 0.6), rel=0.05)
        lines = "\n".join(outcome_lines(race, outcome))
        assert "First: filter + gravac" in lines

    def test_a_run_that_is_given_up_counts_as_long_as_it_was_about_to_take(self) -> None:
        race = new_race()
        run_all(race)
        fedavg = next(result for result in verdict(race).results if result.candidate.name == "fedavg")  # type: ignore[union-attr]
        assert fedavg.reached == 0
        assert math.isnan(fedavg.seconds)
        assert race.times.seeds("fedavg")[0].projected == pytest.approx(30 * 0.3 * STEPS * STEP_SECONDS, rel=0.05)

    def test_without_a_sure_gain_the_plain_strategy_is_returned(self) -> None:
        race = new_race()
        while (planned := race.next()) is not None:
            jitter = 1 + 0.1 * ((hash_of(planned) % 3) - 1)
            race.note(run_of(planned, STEPS, STEP_SECONDS * jitter))
        outcome = verdict(race)
        assert outcome is not None
        if not outcome.proven:
            assert outcome.returned.name == "plain"
        assert outcome.over(race.times, outcome.winner.name).value == pytest.approx(1)

    def test_there_is_none_until_plain_training_has_reached_the_target(self) -> None:
        assert verdict(new_race()) is None

    def test_one_seed_has_no_interval(self) -> None:
        race = new_race()
        for planned in (PlannedRun(race.named[0], 0), PlannedRun(race.named[1], 0)):
            run(race, planned)
        assert speedup(race.times, race.named[1].name, "plain", (0,)).high == math.inf


def hash_of(planned: PlannedRun) -> int:
    return sum(map(ord, planned.candidate.name)) + planned.seed


def test_effects_of_parts_add_up_in_logarithms_and_grow_less_sure() -> None:
    race = new_race()
    for candidate in race.named:
        run(race, PlannedRun(candidate, 0))
    of_parts = effects(race.named, race.times)
    assert of_parts["filter"].log_steps == pytest.approx(math.log(1.1))
    assert of_parts["filter"].log_step_seconds == pytest.approx(math.log(0.5))
    pair = next(combination for combination in race.combinations if combination.name == "filter + gravac")
    effect = predict_effect(pair, of_parts)
    assert effect is not None
    assert effect.log_seconds == pytest.approx(math.log(1.1 * 0.5 * 1.1 * 0.6), abs=0.06)  # steps are tens here
    assert effect.deviation > of_parts["filter"].deviation
    assert predict_effect(pair, {}) is None


class TestFolder:
    def test_keeps_every_run_and_is_drawn(self, tmp_path: Path) -> None:
        options = RaceOptions("mlp", TARGET, tmp_path / "race")
        folder = RaceFolder.open(options.out, options.identity(), resume=False)
        folder.write_asked(options.identity(), {"base": SETTING.base.to_json()}, CLUSTER)
        race = new_race()
        while (planned := race.next()) is not None:
            run(race, planned)
            folder.append(list(race.done.values())[-1])
        assert folder.records() == list(race.done.values())
        said: list[str] = []
        assert end_race(folder, race, "paced", said.append) == 0
        assert "seconds (paced)" in said[0]
        assert said[1].split()[:4] == [">", "filter", "+", "gravac"]
        page = (tmp_path / "race" / "report.html").read_text()
        assert "filter + gravac" in page
        assert (tmp_path / "race" / "report" / "curves.png").exists()
        assert folder.base() == SETTING.base
        assert write_race_report(folder) == tmp_path / "race" / "report.html"

    @pytest.mark.parametrize("removed", [[0], [1], [2], [0, 1], [0, 1, 2]], ids=str)
    def test_a_record_that_was_removed_makes_no_other_be_overwritten(self, tmp_path: Path, removed: list[int]) -> None:
        folder = RaceFolder.open(tmp_path / "race", {}, resume=False)
        race = new_race()
        for _ in range(5):
            planned = race.next()
            assert planned is not None
            run(race, planned)
        first, (another, last) = list(race.done.values())[:3], list(race.done.values())[3:]
        for record in first:
            folder.append(record)
        (tmp_path / "race/records/notes of mine.json.bak").write_text("no record")
        for number in removed:
            (tmp_path / f"race/records/{number:04d}.json").unlink()
        folder.append(another)
        folder.append(last)
        kept = [record for number, record in enumerate(first) if number not in removed]
        assert folder.records() == [*kept, another, last]

    def test_records_beyond_four_digits_stay_in_order(self, tmp_path: Path) -> None:
        folder = RaceFolder.open(tmp_path / "race", {}, resume=False)
        race = new_race()
        for _ in range(3):
            planned = race.next()
            assert planned is not None
            run(race, planned)
        records = list(race.done.values())
        folder.append(records[0])
        (tmp_path / "race/records/0000.json").rename(tmp_path / "race/records/9999.json")
        folder.append(records[1])
        folder.append(records[2])
        assert folder.records() == records

    def test_a_race_is_refused_in_a_folder_that_another_command_uses(self, tmp_path: Path) -> None:
        arguments = ["--model", "mlp", "--target", "loss=0.1", "--out", str(tmp_path / "race")]
        with claim_folder(tmp_path / "race"), redirect_stderr(StringIO()) as told:
            assert main(arguments) == 2
        assert told.getvalue().startswith(f"race: --out {tmp_path / 'race'} is in use by another command (process ")

    @pytest.mark.parametrize("faster", [True, False])
    def test_the_page_claims_the_speed_of_the_strategy_that_is_returned(self, tmp_path: Path, faster: bool) -> None:
        """A jitter that differs by seed makes some candidate the best by luck, so no gain is significant."""
        options = RaceOptions("mlp", TARGET, tmp_path / "race", emulate="4x200mbit")
        folder = RaceFolder.open(options.out, options.identity(), resume=False)
        more = {"base": SETTING.base.to_json(), "ran_on": ran_on(options).to_json()}
        folder.write_asked(options.identity(), more, CLUSTER)
        race = new_race()
        while (planned := race.next()) is not None:
            jitter = 1 + 0.2 * ((hash_of(planned) % 3) - 1)
            if faster:
                run(race, planned)
            else:
                race.note(run_of(planned, STEPS, STEP_SECONDS * jitter))
            folder.append(list(race.done.values())[-1])
        assert end_race(folder, race, "real", lambda _line: None) == 0
        outcome = verdict(race)
        assert outcome is not None
        assert outcome.proven is faster
        page = (tmp_path / "race" / "report.html").read_text()
        best = f"{outcome.over(race.times, 'plain').value:.2f}\N{MULTIPLICATION SIGN}"
        assert f'<p class="number">{best if faster else "1.00" + best[-1]}</p>' in page
        if not faster:
            assert outcome.winner.name != "plain"
            assert f"the best candidate: {best}, 95" in page
        (line,) = commands_on(page)
        assert check_command(line) == ["emulate up", "emulate exec", "train"]
        assert f"--model mlp --strategy {folder.strategy_file}" in line

    def test_ctrl_c_prints_the_command_that_resumes_the_race(self, tmp_path: Path) -> None:
        options = RaceOptions("mlp", TARGET, tmp_path / "a race", emulate="4x200mbit")
        arguments = ["--model", "mlp", "--target", "loss=0.1", "--emulate", "4x200mbit"]
        assert interruption_lines(options, arguments) == ["Interrupted before the first run."]
        RaceFolder.open(options.out, options.identity(), resume=False).write_asked(options.identity(), {}, CLUSTER)
        said, line = interruption_lines(options, arguments)
        assert "is kept" in said
        command = line.removeprefix("Go on with: ")
        assert check_command(command) == ["race"]
        assert shlex.split(command)[-3:] == ["--out", str(tmp_path / "a race"), "--resume"]

    def test_another_target_cannot_go_on_with_it(self, tmp_path: Path) -> None:
        options = RaceOptions("mlp", TARGET, tmp_path)
        with pytest.raises(AutosyncError, match=r"--resume needs an existing race, but .* holds none"):
            RaceFolder.open(tmp_path, options.identity(), resume=True)
        RaceFolder.open(tmp_path, options.identity(), resume=False).write_asked(options.identity(), {}, CLUSTER)
        with pytest.raises(AutosyncError, match="already holds a race; add --resume"):
            RaceFolder.open(tmp_path, options.identity(), resume=False)
        harder = replace(options, target=Target("loss", 0.2))
        with pytest.raises(AutosyncError, match="--resume needs the same --target, but it was"):
            RaceFolder.open(tmp_path, harder.identity(), resume=True)
        with pytest.raises(AutosyncError, match="has no outcome yet"):
            write_race_report(RaceFolder(tmp_path))


def test_invalid_options_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(AutosyncError, match="--seeds must be from 2"):
        RaceOptions("mlp", TARGET, tmp_path, seeds=1)
    with pytest.raises(AutosyncError, match="--trials must be 2 or more"):
        RaceOptions("mlp", TARGET, tmp_path, runs=1)
    with pytest.raises(AutosyncError, match="--workers and --emulate exclude each other"):
        RaceOptions("mlp", TARGET, tmp_path, workers=2, emulate="4x200mbit")
