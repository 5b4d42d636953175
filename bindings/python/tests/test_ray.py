"""Drivers of clusters: Ray, and Dask. Those that are not installed are left out."""

from __future__ import annotations

import importlib.util
import pathlib
import tempfile
import unittest
from typing import Any

import anabranch
from anabranch import _drive, lab
from test_lab import CLAIMED, PRECISE, SMALL, files

HAS_RAY = importlib.util.find_spec("ray") is not None
HAS_DASK = importlib.util.find_spec("distributed") is not None


def of_another_build(orders: list[str]) -> Any:
    engine = anabranch.__engine__
    return _drive.work([order.replace(engine, "0123456789abcdef") for order in orders])


@unittest.skipUnless(HAS_RAY, "missing: ray")
class Ray(unittest.TestCase):
    def setUp(self) -> None:
        import ray
        from ray.cluster_utils import Cluster

        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = pathlib.Path(temporary.name)
        self.cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        self.addCleanup(self.cluster.shutdown)
        ray.init(address=self.cluster.address, log_to_driver=False)
        self.addCleanup(ray.shutdown)

    def test_results_are_those_of_threads_whatever_nodes_do(self) -> None:
        small = lab.scenario(SMALL)
        wanted = self.directory / "threads"
        first = small.run(seeds=3000, out=wanted)
        lost = self.cluster.add_node(num_cpus=1)
        self.cluster.wait_for_nodes()
        steps = []

        def progress(done: int, total: int) -> None:
            if not steps and done > 100:
                steps.append(done)
                self.cluster.remove_node(lost, allow_graceful=False)
                self.cluster.add_node(num_cpus=1)

        out = self.directory / "ray"
        runs = small.run(seeds=3000, executor="ray", out=out, progress=progress)
        self.assertEqual(len(steps), 1, "a node was lost in the middle")
        self.assertEqual(runs.values("timeouts"), first.values("timeouts"))
        self.assertEqual(files(out), files(wanted))
        for described in [PRECISE, CLAIMED]:
            scenario = lab.scenario(described)
            there, here = scenario.run(executor="ray"), scenario.run()
            self.assertEqual(list(there.points()), list(here.points()), "the same stop")
        claimed = lab.scenario(CLAIMED)
        self.assertEqual(claimed.check(executor="ray").document, claimed.check().document)

    def test_what_was_stopped_goes_on(self) -> None:
        small = lab.scenario(SMALL)
        out = self.directory / "ray"

        def stop(done: int, total: int) -> None:
            if done:
                raise LookupError("enough")

        with self.assertRaisesRegex(LookupError, "enough"):
            small.run(seeds=2000, executor="ray", out=out, progress=stop)
        small.run(seeds=2000, executor="ray", out=out)
        small.run(seeds=2000, out=self.directory / "threads")
        self.assertEqual(files(out), files(self.directory / "threads"))

    def test_other_builds_are_refused_and_errors_arrive(self) -> None:
        from anabranch.ray import RayExecutor

        class Other(RayExecutor):
            def submit(self, function: Any, /, *arguments: Any, **more: Any) -> Any:
                return super().submit(of_another_build, *arguments)

        import sys

        import ray.cloudpickle

        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        with Other() as other, self.assertRaisesRegex(lab.RunError, "install the same version"):
            lab.scenario(SMALL).run(executor=other)
        with RayExecutor() as executor:
            self.assertGreaterEqual(executor.workers, 1)
            with self.assertRaises(ZeroDivisionError):
                executor.submit(divmod, 1, 0).result()


@unittest.skipUnless(HAS_DASK, "missing: distributed")
class Dask(unittest.TestCase):
    def test_results_are_those_of_threads(self) -> None:
        from distributed import Client, LocalCluster

        small = lab.scenario(SMALL)
        with tempfile.TemporaryDirectory() as temporary:
            here, there = pathlib.Path(temporary, "here"), pathlib.Path(temporary, "there")
            small.run(seeds=60, out=here)
            with LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
            ) as cluster, Client(cluster) as client:
                executor = client.get_executor()
                self.assertEqual(_drive._workers(executor), 2)
                small.run(seeds=60, executor=executor, out=there)
            self.assertEqual(files(there), files(here))


if __name__ == "__main__":
    unittest.main()
