"""caro/2.5 by workers of Python and by the program: WHAT PROGRAM SEEDS few|all.

WHAT is pool, pool-wall, ray, ray-wall or plan.
"""

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor

try:
    from anabranch import lab
except ImportError as error:
    print(f"there is no package: {error}", file=sys.stderr)
    sys.exit(3)

WHAT, PROGRAM, SEEDS, FEW = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4] == "few"
NARROWED = {"profile": "rfc9260", "primary_loss": ["3 %", "8 %"], "alternate_loss": ["0 %", "10 %"]} if FEW else {}


def timed(function, arguments):
    """In a worker: a call, and the processor time that it took."""
    begin = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - begin


class Timed(Executor):
    """Another executor, with the processor time of what it carries out."""

    def __init__(self, inner, workers):
        self.inner, self.workers, self.seconds = inner, workers, 0.0
        self._max_workers = workers

    def submit(self, function, /, *arguments):
        outer = Future()

        def done(inner):
            try:
                result, seconds = inner.result()
            except BaseException as error:
                outer.set_exception(error)
                return
            self.seconds += seconds
            outer.set_result(result)

        outer.set_running_or_notify_cancel()
        self.inner.submit(timed, function, arguments).add_done_callback(done)
        return outer


def nothing():
    import anabranch.lab

    time.sleep(0.2)


def by_program(shard=None):
    """Starts 'lab run' with an empty store. Returns the process and its store."""
    store = tempfile.mkdtemp()
    command = [PROGRAM, "lab", "run", "caro/2.5", "--seeds", SEEDS, "--out", store]
    command += ["--shard", shard, "--jobs", "1"] if shard else ["--jobs", "2"]
    for name, values in NARROWED.items():
        command += ["--set", f"{name}={','.join([values] if isinstance(values, str) else values)}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), store


def waited(*started):
    """Processor time and time of processes of the program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    for process, store in started:
        if process.wait() != 0:
            sys.exit(f"'lab run' ended with {process.returncode}")
        shutil.rmtree(store)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.perf_counter() - begin


@contextlib.contextmanager
def pool():
    with ProcessPoolExecutor(2) as workers:
        list(future.result() for future in [workers.submit(nothing) for _ in range(2)])
        yield Timed(workers, 2)


@contextlib.contextmanager
def cluster():
    try:
        import ray
        from ray.cluster_utils import Cluster

        from anabranch.ray import RayExecutor
    except ImportError as error:
        print(error, file=sys.stderr)
        sys.exit(3)
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    try:
        with RayExecutor(nodes.address) as workers:
            list(future.result() for future in [workers.submit(nothing) for _ in range(4)])
            yield Timed(workers, 2)
    finally:
        ray.shutdown()
        nodes.shutdown()


def share(executor):
    scenario = lab.scenario("caro/2.5").set({}, **NARROWED)
    with executor() as workers:
        begin = time.perf_counter()
        scenario.run(seeds=int(SEEDS), executor=workers, workers=2, progress=False)
        wall = time.perf_counter() - begin
    cpu, program_wall = waited(by_program())
    notes = {"program_cpu_s": cpu, "workers_cpu_s": workers.seconds}
    if WHAT.endswith("-wall"):
        shards_cpu, shards_wall = waited(by_program("1/2"), by_program("2/2"))
        notes |= {"wall": wall, "shards_cpu_s": shards_cpu, "shards_wall": shards_wall / program_wall}
        return {"value": wall / program_wall, **notes}
    return {"value": cpu / workers.seconds, **notes}


def plan():
    """The share of the driver, as if the workers took no time."""
    from anabranch import _anabranch

    scenario = lab.scenario("caro/2.5").set({}, **NARROWED)
    results, seconds = {}, 0.0
    for take in (False, True):
        plan = _anabranch.Plan(scenario._inner, int(SEEDS), 1, None)
        begin = time.perf_counter()
        carried_out = 0.0
        while not plan.is_complete:
            order = plan.next_unit()
            if order not in results:
                before = time.perf_counter()
                results[order] = _anabranch.carry_out(order)
                carried_out += time.perf_counter() - before
            plan.take(order, results[order])
        own = time.perf_counter() - begin - carried_out
        seconds += carried_out
    return {"value": own / seconds, "seconds_a_run": seconds / len(results)}


figures = {
    "pool": lambda: share(pool),
    "pool-wall": lambda: share(pool),
    "ray": lambda: share(cluster),
    "ray-wall": lambda: share(cluster),
    "plan": plan,
}
print(json.dumps(figures[WHAT]()))
# Ray leaves threads behind that print when the interpreter ends.
sys.stdout.flush()
os._exit(0)
