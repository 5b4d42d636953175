"""The laboratory in Python. Needs nothing but the package; the program, if ANABRANCH names it."""

from __future__ import annotations

import doctest
import json
import math
import multiprocessing
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from concurrent.futures import (
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from concurrent.futures.process import BrokenProcessPool

import anabranch
from anabranch import _drive, _toml, lab

SMALL = {
    "title": "Small",
    "run": {"seeds": 6},
    "network": {
        "shape": "dumbbells",
        "core_rate": "10 Mb/s",
        "core_delay": "25 ms",
        "edge_rate": "100 Mb/s",
        "edge_delay": "10 ms",
        "queue": "2 BDP",
    },
    "path": {"primary": {}, "alternate": {}},
    "association": {"profile": "rfc9260"},
    "traffic": {"file": {"size": "100 kB", "message": "1452 B"}},
    "axis": {"loss": {"set": "path.primary.loss", "values": ["0 %", "5 %"]}},
}
PRECISE = {**SMALL, "run": {"seeds": 12, "min_seeds": 4, "precision": "10 %"}}


def files(directory: pathlib.Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


class Inline(Executor):
    """Does everything itself, with ``work`` in place of a worker's function."""

    def __init__(self, work) -> None:
        self.work = work

    def submit(self, function, /, *arguments, **more):
        future: Future = Future()
        try:
            future.set_result(self.work(*arguments))
        except BaseException as error:
            future.set_exception(error)
        return future


def spawned(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


class InDirectory(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)


class Scenarios(unittest.TestCase):
    def test_fields_are_set_and_axes_narrowed(self) -> None:
        figure = lab.scenario("caro/2.5")
        self.assertEqual(figure.id, "caro/2.5")
        small = figure.set({"association.pmr": 0}, policy=["AllRtxAlt", "AllRtxSame"])
        self.assertEqual(small.axes["policy"], ["AllRtxAlt", "AllRtxSame"])
        self.assertLess(len(small.points), len(figure.points))
        self.assertNotEqual(small.sha256, figure.sha256)
        self.assertEqual(small.set(policy="AllRtxAlt").axes["policy"], ["AllRtxAlt"])

    def test_dicts_are_refused_in_the_words_of_files(self) -> None:
        def refused(reason: str, *path_and_value) -> None:
            *path, last, value = path_and_value
            changed = _copy(SMALL)
            table = changed
            for name in path:
                table = table[name]
            table[last] = value
            with self.assertRaisesRegex(lab.ScenarioError, reason) as raised:
                lab.scenario(changed)
            text = str(raised.exception)
            with tempfile.TemporaryDirectory() as directory:
                file = pathlib.Path(directory, "dict.toml")
                file.write_text(_toml.dumps(changed))
                with self.assertRaises(lab.ScenarioError) as raised:
                    lab.scenario(file)
            line = text[text.index("dict.toml:") :]
            self.assertTrue(str(raised.exception).endswith(line), (text, raised.exception))

        refused("dict.toml:3: run.seeds is 0, outside 1 to 100000", "run", "seeds", 0)
        refused("unknown key", "network", "core_rat", "1 Mb/s")
        refused("core_delay", "network", "core_delay", "25 kB")
        refused("core_delay", "network", "core_delay", 25)
        refused("title", "title", True)
        refused("", "axis", "loss", "values", [])
        refused("emulator", "run", "on", "emulators")

    def test_what_is_no_scenario_is_refused(self) -> None:
        with self.assertRaisesRegex(lab.ScenarioError, "there is no scenario 'caro/9.9'"):
            lab.scenario("caro/9.9")
        with self.assertRaisesRegex(lab.ScenarioError, "none.toml cannot be read"):
            lab.scenario("none.toml")
        with self.assertRaisesRegex(TypeError, "path.x is of type object"):
            lab.scenario({"path": {"x": object()}})
        with self.assertRaisesRegex(ValueError, "path.x is nan"):
            lab.scenario({"path": {"x": float("nan")}})
        with self.assertRaisesRegex(ValueError, "is no Unicode"):
            lab.scenario({"title": "\ud800"})
        with self.assertRaisesRegex(TypeError, "a key of a scenario is a text"):
            lab.scenario({1: "x"})
        with self.assertRaisesRegex(lab.ScenarioError, "runs on real packets"):
            lab.scenario({**SMALL, "run": {"seeds": 1, "on": "emulator"}})
        with self.assertRaisesRegex(ValueError, "seeds is 0, outside 1 to 100000"):
            lab.scenario(SMALL).run(seeds=0)

    def test_texts_survive(self) -> None:
        title = 'a "quoted" \\ \t \u007f \u00e9 \U0001f600 \x01'
        self.assertIn("title = ", lab.scenario({**SMALL, "title": title}).resolved)
        self.assertEqual(lab.scenario({**SMALL, "title": "é \U0001f600"}).title, "é \U0001f600")


def _copy(table):
    return {k: _copy(v) if isinstance(v, dict) else v for k, v in table.items()}


class Drivers(InDirectory):
    def test_stores_are_equal_whoever_carries_out_the_runs(self) -> None:
        for name, scenario in [("fixed", SMALL), ("precise", PRECISE)]:
            here = self.directory / name
            small = lab.scenario(scenario)
            first = small.run(jobs=1, out=here / "one")
            wanted = files(here / "one")
            self.assertEqual(len(wanted), 3, "a lock and two points")
            threads = small.run(jobs=2, out=here / "two")
            with spawned(2) as pool:
                processes = small.run(executor=pool, out=here / "processes")
            with ThreadPoolExecutor(3) as pool:
                pooled = small.run(executor=pool, out=here / "threads")
            for other in ["two", "processes", "threads"]:
                self.assertEqual(files(here / other), wanted, other)
            for results in [threads, processes, pooled]:
                self.assertEqual(results.values("timeouts"), first.values("timeouts"))
                self.assertEqual(list(results.points()), list(first.points()))

    def test_the_program_takes_the_results_and_has_the_same(self) -> None:
        program = os.environ.get("ANABRANCH")
        if not program:
            self.skipTest("ANABRANCH names no program")
        for scenario, out in [("caro/2.5", "caro"), (str(self.directory / "my.toml"), "my")]:
            (self.directory / "my.toml").write_text(_toml.dumps(SMALL))
            here, there = self.directory / f"{out}-here", self.directory / f"{out}-there"
            lab.scenario(scenario).run(seeds=1, out=here)
            command = [program, "lab", "run", scenario, "--seeds", "1", "--quiet", "--out", there]
            # The same directory of scenarios: that in the program.
            ended = subprocess.run(command, cwd=self.directory, capture_output=True, text=True)
            self.assertEqual(ended.returncode, 0, ended.stderr)
            self.assertEqual(files(here), files(there))
            command = [*command[:-1], here, "--json", "-"]
            again = subprocess.run(command, cwd=self.directory, capture_output=True, text=True)
            self.assertEqual(again.returncode, 0, again.stderr)

    def test_what_was_stopped_goes_on(self) -> None:
        small = lab.scenario(SMALL)
        out = self.directory / "kept"

        def stop(done: int, total: int) -> None:
            raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            small.run(seeds=200, out=out, progress=stop)
        # The first call may have finished all of its runs before it was stopped.
        with self.assertRaisesRegex(LookupError, "enough"), ThreadPoolExecutor(2) as pool:
            small.run(seeds=300, out=out, progress=stop, executor=pool)
        small.run(seeds=300, out=out)
        small.run(seeds=300, out=self.directory / "whole")
        self.assertEqual(files(out), files(self.directory / "whole"))
        # Nothing is left to do, so nobody is asked.
        def never(_):
            raise AssertionError("a worker was asked")

        self.assertEqual(len(small.run(seeds=300, out=out, executor=Inline(never))), 600)

    @unittest.skipUnless(hasattr(signal, "SIGINT") and os.name == "posix", "needs signals")
    def test_ctrl_c_stops_and_keeps_what_is_finished(self) -> None:
        out = self.directory / "kept"
        program = f"""
import signal, sys
from anabranch import lab
signal.signal(signal.SIGINT, signal.default_int_handler)
def progress(done, total):
    if done:
        print(done, flush=True)
try:
    lab.scenario({SMALL!r}).run(seeds=100000, out={str(out)!r}, progress=progress)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""
        child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        self.assertGreater(int(child.stdout.readline()), 0)
        child.send_signal(signal.SIGINT)
        rest = child.communicate()[0]
        self.assertEqual((rest.splitlines()[-1], child.returncode), ("stopped", 0))
        kept = lab.scenario(SMALL).run(seeds=1, out=out)
        self.assertEqual(len(kept), 2)
        self.assertGreater(len(files(out)), 1)

    @unittest.skipUnless(hasattr(signal, "SIGKILL"), "needs signals")
    def test_a_driver_that_is_killed_loses_only_what_is_not_finished(self) -> None:
        out = self.directory / "kept"
        for executor in ["None", "ThreadPoolExecutor(2)"]:
            program = f"""
from concurrent.futures import ThreadPoolExecutor
from anabranch import lab
def progress(done, total):
    if done:
        print(done, flush=True)
lab.scenario({SMALL!r}).run(seeds=100000, out={str(out)!r}, progress=progress, executor={executor})
"""
            child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
            assert child.stdout is not None
            self.assertGreater(int(child.stdout.readline()), 0)
            child.kill()
            child.communicate()
            self.assertEqual(child.returncode, -signal.SIGKILL)
            self.assertGreater(len(files(out)), 1)
        small = lab.scenario(SMALL)
        runs = small.run(seeds=40, out=out)
        self.assertEqual(runs.values("timeouts"), small.run(seeds=40).values("timeouts"))

    def test_a_store_is_for_one_driver_at_a_time(self) -> None:
        small = lab.scenario(SMALL)
        out = self.directory / "kept"
        said = []

        def again(orders):
            try:
                small.run(out=out)
            except lab.StoreError as error:
                said.append(str(error))
            return _drive.work(orders)

        small.run(seeds=1, out=out, executor=Inline(again))
        self.assertIn("another program is using the results in", said[0])
        small.run(seeds=1, out=out)

    def test_a_store_is_for_one_process_at_a_time(self) -> None:
        code = f"""
import sys
from anabranch import lab
scenario = lab.scenario({SMALL!r})
def told(done, total):
    print(done, flush=True)
    sys.stdin.readline()
scenario.run(seeds=2, out={str(self.directory / "kept")!r}, progress=told)
"""
        small = lab.scenario(SMALL)
        out = self.directory / "kept"
        command = [sys.executable, "-c", code]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            self.assertTrue(other.stdout.readline(), "it has begun")
            for executor in [None, Inline(_drive.work)]:
                with self.assertRaisesRegex(lab.StoreError, "another program is using the results"):
                    small.run(seeds=2, out=out, executor=executor)
            other.communicate()
        self.assertEqual(other.returncode, 0)
        again = small.run(seeds=2, out=out)
        self.assertEqual(again.values("timeouts"), small.run(seeds=2).values("timeouts"))

    def test_damaged_results_are_run_again_with_a_warning(self) -> None:
        small = lab.scenario(SMALL)
        out = self.directory / "kept"
        small.run(out=out)
        whole = files(out)
        file = next(out.rglob("*.json"))
        file.write_bytes(file.read_bytes()[:-5])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            small.run(out=out)
        self.assertEqual(len(said), 1)
        self.assertIn("damaged and not used", str(said[0].message))
        self.assertEqual(files(out), whole)

    @unittest.skipUnless(os.path.exists("/dev/full"), "needs /dev/full")
    def test_a_full_disk_is_named(self) -> None:
        small = lab.scenario(SMALL)
        out = self.directory / "kept"
        small.run(seeds=1, out=out)
        for file in out.rglob("*.json"):
            file.with_suffix(".parts").symlink_to("/dev/full")
        for executor in [None, Inline(_drive.work)]:
            with self.assertRaisesRegex(lab.StoreError, "cannot be kept"):
                small.run(seeds=3, out=out, executor=executor)


class Workers(InDirectory):
    def setUp(self) -> None:
        super().setUp()
        self.small = lab.scenario(SMALL)

    def test_nonsense_is_refused(self) -> None:
        def with_lines(change):
            def work(orders):
                lines, seconds = _drive.work(orders)
                return [change(line) for line in lines], seconds

            return work

        cases = [
            (lambda orders: None, "a worker returned None in place of results"),
            (lambda orders: 7, "a worker returned 7 in place of results"),
            (lambda orders: ([], 1.0), "a worker returned 0 results of 1 units"),
            (lambda orders: ([None] * len(orders), 1.0), "returned None in place of a result"),
            (lambda orders: (_drive.work(orders)[0], "soon"), "in place of results"),
            (lambda orders: (_drive.work(orders)[0], math.nan), "returned nan in place of seconds"),
            (lambda orders: (_drive.work(orders)[0], -1.0), "returned -1.0 in place of seconds"),
            (with_lines(lambda line: ""), "is not used: there is none"),
            (with_lines(lambda line: "Killed"), "is not used: the checksum is wrong"),
            (with_lines(lambda line: line.replace("0", "1")), "the checksum is wrong"),
            (with_lines(_of_another_build), "it is of the engine 0123456789abcdef"),
        ]
        for work, reason in cases:
            with self.subTest(reason), self.assertRaisesRegex(lab.RunError, reason):
                self.small.run(executor=Inline(work), workers=1, out=self.directory / "kept")
        # None of it was kept.
        self.small.run(seeds=2, out=self.directory / "kept")
        self.small.run(seeds=2, out=self.directory / "whole")
        self.assertEqual(files(self.directory / "kept"), files(self.directory / "whole"))

    def test_a_worker_of_another_version_refuses(self) -> None:
        def other(orders):
            return _drive.work([o.replace(anabranch.__engine__, "0123456789abcdef") for o in orders])

        with self.assertRaisesRegex(lab.RunError, "install the same version everywhere"):
            self.small.run(executor=Inline(other))

    def test_lost_work_is_done_again(self) -> None:
        lost = []

        def sometimes(orders):
            if orders not in lost:
                lost.append(orders)
                raise RuntimeError("the node is gone")
            return _drive.work(orders)

        results = self.small.run(executor=Inline(sometimes))
        self.assertEqual(results.values("timeouts"), self.small.run().values("timeouts"))
        self.assertGreater(len(lost), 0)

        def never(orders):
            lost.append(orders)
            raise RuntimeError("the node is gone")

        lost.clear()
        with self.assertRaisesRegex(RuntimeError, "the node is gone"):
            self.small.run(executor=Inline(never), workers=1)
        self.assertEqual(max(map(lost.count, lost)), _drive.ATTEMPTS)

    def test_work_that_is_cancelled_is_done_again(self) -> None:
        class Cancels(Executor):
            def __init__(self, most: int) -> None:
                self.left = most

            def submit(self, function, /, *arguments, **more):
                future: Future = Future()
                if self.left > 0:
                    self.left -= 1
                    future.cancel()
                    future.set_running_or_notify_cancel()
                else:
                    future.set_result(function(*arguments))
                return future

        results = self.small.run(executor=Cancels(2), workers=1)
        self.assertEqual(results.values("timeouts"), self.small.run().values("timeouts"))
        with self.assertRaises(CancelledError):
            self.small.run(executor=Cancels(1000), workers=1)

    def test_who_waits_for_a_worker_that_never_answers_can_stop(self) -> None:
        futures: list[Future] = []

        class Silent(Executor):
            def submit(self, function, /, *arguments, **more):
                # The first one answers.
                futures.append(Future())
                if len(futures) == 1:
                    futures[0].set_result(function(*arguments))
                return futures[-1]

        def stop(done: int, total: int) -> None:
            if len(futures) > 2:
                raise KeyboardInterrupt

        out = self.directory / "kept"
        with self.assertRaises(KeyboardInterrupt):
            self.small.run(executor=Silent(), workers=1, out=out, progress=stop)
        self.assertTrue(all(future.cancelled() for future in futures[1:]))
        # What the first one returned is kept, and the store is free.
        done: list[int] = []
        self.small.run(out=out, progress=lambda now, total: done.append(total))
        self.assertLess(done[0], 12)

    def test_a_pool_that_breaks_keeps_what_is_finished(self) -> None:
        out = self.directory / "kept"
        with spawned(1) as pool:
            for _ in range(3):
                pool.submit(int).result()

            def progress(done: int, total: int) -> None:
                for process in pool._processes.values():
                    process.kill()

            with self.assertRaises(BrokenProcessPool):
                self.small.run(seeds=200, executor=pool, out=out, progress=progress)
        self.small.run(seeds=200, out=out)
        self.small.run(seeds=200, out=self.directory / "whole")
        self.assertEqual(files(out), files(self.directory / "whole"))

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_forks_after_the_import_are_workers(self) -> None:
        context = multiprocessing.get_context("fork")
        figure = lab.scenario("caro/2.5").set(primary_loss=3, alternate_loss=0)
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            results = figure.run(seeds=1, executor=pool)
        self.assertEqual(results.values("timeouts"), figure.run(seeds=1).values("timeouts"))
        self.assertEqual(lab.scenario("caro/2.5").id, "caro/2.5", "the forks removed nothing")

    def test_subinterpreters_are_refused(self) -> None:
        try:
            import _interpreters as interpreters  # Python 3.13
        except ModuleNotFoundError:
            try:
                import _xxsubinterpreters as interpreters
            except ModuleNotFoundError:
                self.skipTest("no subinterpreters")
        other = interpreters.create()
        code = f"""
import sys
sys.path[:] = {sys.path!r}
try:
    import anabranch
except ImportError as error:
    assert "interpreter" in str(error), error
else:
    raise AssertionError("anabranch was imported")
"""
        try:
            failed = interpreters.run_string(other, code)
            self.assertIsNone(failed)
        finally:
            interpreters.destroy(other)

    def test_threads_run_scenarios_at_the_same_time(self) -> None:
        with ThreadPoolExecutor(4) as pool:
            all = list(pool.map(lambda seeds: self.small.run(seeds=seeds), [8] * 8))
        expected = self.small.run(seeds=8).values("transfer_time_s")
        for results in all:
            self.assertEqual(results.values("transfer_time_s"), expected)

    @unittest.skipUnless(os.path.exists("/proc/self/statm"), "needs /proc")
    def test_runs_leave_no_memory_behind(self) -> None:
        def resident() -> int:
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        def some() -> None:
            for executor in [None, Inline(_drive.work)]:
                self.small.run(seeds=100, executor=executor, workers=1)

        for _ in range(4):
            some()
        before = resident()
        for _ in range(8):
            some()
        # 3,200 runs: 2 kB of each would be more.
        self.assertLess(resident() - before, 6_000_000)

    def test_other_threads_go_on(self) -> None:
        steps, stop = [0], threading.Event()

        def count() -> None:
            while not stop.is_set():
                steps[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        before: list[int] = []
        try:
            # The last call is after the last run.
            self.small.run(seeds=30, progress=lambda done, total: before.append(steps[0]))
        finally:
            stop.set()
            thread.join()
        self.assertGreater(steps[0], 0)


def _of_another_build(line: str) -> str:
    import hashlib

    document = "{" + line[len('{"checksum":"') + 64 + len('",') :]
    document = document.replace(anabranch.__engine__, "0123456789abcdef")
    checksum = hashlib.sha256(document.encode()).hexdigest()
    return f'{{"checksum":"{checksum}",{document[1:]}'


CLAIMED = {
    **SMALL,
    "run": {"seeds": 24, "min_seeds": 4},
    "claim": [
        {
            "id": claim,
            "kind": "value",
            "text": "A transfer takes this long",
            "source": "ours",
            "formula": f"transfer_time_s[loss={loss}]",
            bound: seconds,
        }
        for claim, loss, bound, seconds in [
            ("fast", "0 %", "at_most", 1),
            ("slow", "5 %", "at_least", 100),
            ("edge", "5 %", "at_most", 1.2),
        ]
    ],
}


class Checks(InDirectory):
    def test_verdicts_are_equal_whoever_carries_out_the_runs(self) -> None:
        claimed = lab.scenario(CLAIMED)
        threads = claimed.check(out=self.directory / "threads")
        self.assertEqual(threads.verdicts["dict/fast"], "holds")
        self.assertEqual(threads.verdicts["dict/slow"], "differs")
        self.assertEqual(threads.unexplained[:1], ["dict/slow"])
        fewest = {point: count for point, count in threads.runs.points()}
        self.assertLess(fewest["loss=0 %"], 24, "it is decided early")
        seen: list[tuple[int, int]] = []
        with ThreadPoolExecutor(3) as pool:
            pooled = claimed.check(
                executor=pool,
                out=self.directory / "pool",
                progress=lambda done, total: seen.append((done, total)),
            )
        self.assertEqual(pooled.document, threads.document)
        self.assertEqual(pooled.markdown(), threads.markdown())
        self.assertEqual(files(self.directory / "pool"), files(self.directory / "threads"))
        self.assertEqual(seen, sorted(seen))
        self.assertEqual(seen[-1][0], len(pooled.runs))
        self.assertEqual(claimed.check(full=True).claims[0]["seeds"], 24)
        self.assertIn("1 holds", repr(claimed.check(seeds=4)))

    def test_a_changed_scenario_has_the_claims_of_the_file(self) -> None:
        claimed = lab.scenario(CLAIMED)
        changed = claimed.set({"network.core_rate": "1 kb/s"}).check(seeds=4, progress=False)
        self.assertEqual(changed.verdicts["dict/fast"], "differs", "transfers are slow")
        with self.assertRaisesRegex(lab.ScenarioError, "restricts an axis"):
            claimed.set(loss=5).check()
        with self.assertRaisesRegex(ValueError, "exclude each other"):
            claimed.check(full=True, seeds=3)

    def test_what_a_worker_or_progress_raises_ends_the_check_and_the_runs_are_kept(self) -> None:
        claimed = lab.scenario(CLAIMED)
        for executor in [Inline(_drive.work), None]:
            out = self.directory / f"kept-{executor is None}"

            def stop(done: int, total: int) -> None:
                if done or executor is None:
                    raise LookupError("enough")

            with self.assertRaisesRegex(LookupError, "enough"):
                claimed.check(seeds=500, executor=executor, out=out, progress=stop)
            # The lock is free again.
            again = claimed.check(seeds=4, executor=executor, out=out)
            self.assertEqual(again.verdicts, claimed.check(seeds=4).verdicts)

        def other(orders):
            return _drive.work([o.replace(anabranch.__engine__, "0123456789abcdef") for o in orders])

        with self.assertRaisesRegex(lab.RunError, "install the same version everywhere"):
            claimed.check(executor=Inline(other))

    def test_a_report_has_charts_and_claims(self) -> None:
        claimed = lab.scenario(CLAIMED)
        page = self.directory / "report.html"
        answer = claimed.report(page, seeds=4, distributions=True)
        text = page.read_text()
        for part in ["<svg", "A transfer takes this long", "lab.scenario(", "the runs as boxes"]:
            self.assertIn(part, text)
        with ThreadPoolExecutor(2) as pool:
            again = lab.report([claimed], self.directory / "2.html", seeds=4, executor=pool)
        self.assertEqual(again[0].document["claims"], answer.document["claims"])
        self.assertEqual(len(answer.runs), 8)

    def test_the_program_has_the_same_verdicts_pages_and_traces(self) -> None:
        program = os.environ.get("ANABRANCH")
        if not program:
            self.skipTest("ANABRANCH names no program")

        def said(*words: str) -> str:
            command = [program, "lab", *words]
            ended = subprocess.run(command, cwd=self.directory, capture_output=True, text=True)
            self.assertEqual(ended.stderr.count("error"), 0, ended.stderr)
            return ended.stdout

        file = self.directory / "claimed.toml"
        file.write_text(_toml.dumps(CLAIMED))
        for name, options in [("claimed.toml", {}), ("failover/cut", {"seeds": 2})]:
            scenario = lab.scenario(file if name.endswith("toml") else name)
            words = [word for pair in options.items() for word in (f"--{pair[0]}", str(pair[1]))]
            said("check", name, *words, "--quiet", "--json", "v.json", "--markdown", "v.md")
            document = json.loads((self.directory / "v.json").read_text())
            verdicts = scenario.check(**options)
            ours = verdicts.document
            del document["made_by"], ours["made_by"]
            self.assertEqual(ours, document)
            self.assertIn(verdicts.markdown(), (self.directory / "v.md").read_text())
        said("report", "claimed.toml", "--seeds", "3", "--quiet", "--html", "there.html")
        lab.scenario(file).report(self.directory / "here.html", seeds=3)
        pages = [(self.directory / f"{where}.html").read_text() for where in ("here", "there")]
        charts = [re.findall("<svg.*?</svg>", page, re.DOTALL) for page in pages]
        self.assertGreater(len(charts[0]), 0)
        self.assertEqual(charts[0], charts[1])
        said("trace", "claimed.toml", "--set", "loss=5", "--seed", "3", "--csv", "there.csv")
        lab.scenario(file).set(loss=5).trace(3).to_csv(self.directory / "here.csv")
        tables = [(self.directory / f"{where}.csv").read_text() for where in ("here", "there")]
        rows = [[row.split(",")[:5] for row in table.splitlines()] for table in tables]
        self.assertEqual(rows[0], rows[1])


class Traces(InDirectory):
    def test_a_run_has_packets_and_series(self) -> None:
        lossy = lab.scenario(SMALL).set(loss=5)
        pcap, qlog = self.directory / "run.pcapng", self.directory / "run.qlog"
        trace = lossy.trace(2, pcap=pcap, qlog=qlog)
        self.assertEqual(trace.metrics["transfer_time_s"], lossy.run(seeds=3).values("transfer_time_s")[0][2])
        self.assertEqual(trace.fingerprint, lossy.trace(2).fingerprint)
        self.assertNotEqual(trace.fingerprint, lossy.trace(1).fingerprint)
        self.assertGreater(len(trace), 100)
        self.assertEqual(pcap.read_bytes()[:4], b"\n\r\r\n")
        self.assertIn(b"DATA", qlog.read_bytes())
        self.assertEqual(list(trace.series("cwnd_bytes")), ["primary", "alternate"])
        self.assertIn("file", trace.series("goodput_kbit_s"))
        self.assertTrue(all(chart.startswith("<svg") for chart in trace.charts().values()))
        trace.to_html(self.directory / "run.html")
        page = (self.directory / "run.html").read_text()
        self.assertIn("trace(run=2)", page)
        with self.assertRaisesRegex(ValueError, "there is no series 'speed'"):
            trace.series("speed")
        with self.assertRaises(OSError):
            lossy.trace(pcap=self.directory / "no" / "run.pcapng")
        with self.assertRaisesRegex(ValueError, "below 0"):
            lossy.trace(-1)


class Tables(InDirectory):
    def test_files_are_those_of_the_program(self) -> None:
        results = lab.scenario(SMALL).run(seeds=2)
        results.to_csv(self.directory / "runs.csv")
        results.to_parquet(self.directory / "runs.parquet")
        rows = (self.directory / "runs.csv").read_text().splitlines()
        self.assertEqual(len(rows), 1 + 4)
        self.assertTrue(rows[0].startswith("loss (%),run,seed,"), rows[0])
        self.assertTrue(rows[1].endswith(",lab.scenario('dict').run(seeds=2)"), rows[1])
        self.assertEqual((self.directory / "runs.parquet").read_bytes()[:4], b"PAR1")

    def test_metrics_have_names(self) -> None:
        results = lab.scenario(SMALL).run(seeds=2)
        named = results.values("packets_sent_path_primary")
        self.assertEqual(named, results.values("packets_sent_path1"))
        with self.assertRaisesRegex(KeyError, "there is no metric 'time'"):
            results.values("time")

    def test_charts_are_pictures(self) -> None:
        figure = lab.scenario("caro/2.5").set(primary_loss=[3, 5], alternate_loss=0)
        charts = figure.run(seeds=2).charts()
        self.assertTrue(charts and all(svg.startswith("<svg") for svg in charts.values()))

    def test_a_stream_that_nobody_takes_is_released(self) -> None:
        results = lab.scenario(SMALL).run(seeds=2)
        for _ in range(100):
            capsule = results.__arrow_c_stream__()
        self.assertIn("arrow_array_stream", repr(capsule))


def load_tests(loader, tests, pattern):
    for module in [anabranch, lab, _toml]:
        tests.addTests(doctest.DocTestSuite(module))
    return tests


if __name__ == "__main__":
    unittest.main()
