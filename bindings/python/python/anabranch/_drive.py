"""Carries out a plan with any executor of ``concurrent.futures``."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait

from ._anabranch import Plan, RunError, ScenarioError, carry_out
from ._temporary import clean_up

# A worker gets as many runs at a time as take about this long, in seconds: less, and handing them out takes longer than
# the runs; more, and the last worker lets the others wait.
BATCH = 2.0

# How often a unit is tried. Workers die, but a unit that kills each of them is the reason.
ATTEMPTS = 3


def work(orders: list[str]) -> tuple[list[str], float]:
    """What a worker does: carries out units, and returns their results, and how long it took in seconds."""
    clean_up()
    begun = time.perf_counter()
    return [carry_out(order) for order in orders], time.perf_counter() - begun


def drive(
    plan: Plan,
    executor: Executor,
    workers: int | None,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Carries out what is missing. If it ends early, by an exception or Ctrl-C, the plan has what was finished.

    ``workers`` is how many there are; without it, the executor is asked again and again, because nodes come and go.
    """
    pending: dict[Future[tuple[list[str], float]], list[str]] = {}
    attempts: dict[str, int] = {}
    mean = BATCH
    done = 0
    try:
        while not plan.is_complete:
            most = 2 * (workers or _workers(executor))
            while len(pending) < most:
                # Nobody gets more than a fair share of what is left.
                fair = plan.missing // most
                orders = _next(plan, max(1, min(int(BATCH / mean), fair)))
                if not orders:
                    break
                pending[executor.submit(work, orders)] = orders
            finished, _ = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in finished:
                orders = pending.pop(future)
                taken, seconds = _take(plan, future, orders, attempts)
                done += taken
                if taken:
                    mean = max(seconds / taken, 1e-4)
            if progress is not None:
                progress(done, done + plan.missing)
    finally:
        for future in pending:
            future.cancel()


def _workers(executor: Executor) -> int:
    """How many workers an executor has, as far as it tells: pools have a number, our own for Ray counts, and Dask's
    has a client that knows the threads of each worker."""
    count = getattr(executor, "workers", None) or getattr(executor, "_max_workers", None)
    if count is None and (client := getattr(executor, "_client", None)) is not None:
        count = sum(client.nthreads().values())
    return max(1, int(count or os.cpu_count() or 1))


def _next(plan: Plan, count: int) -> list[str]:
    orders: list[str] = []
    while len(orders) < count and (order := plan.next_unit()) is not None:
        orders.append(order)
    return orders


def _take(
    plan: Plan,
    future: Future[tuple[list[str], float]],
    orders: list[str],
    attempts: dict[str, int],
) -> tuple[int, float]:
    """Takes what a worker returned, and gives back what it did not do. How many units are done, and the time."""
    taken = 0
    try:
        answer = future.result()
        try:
            results, seconds = answer
            results, seconds = list(results), float(seconds)
        except (TypeError, ValueError):
            raise RunError(f"a worker returned {_short(answer)} in place of results") from None
        if not 0 <= seconds < math.inf:
            raise RunError(f"a worker returned {seconds} in place of seconds")
        if len(results) != len(orders):
            raise RunError(f"a worker returned {len(results)} results of {len(orders)} units")
        for order, result in zip(orders, results):
            if not isinstance(result, str):
                raise RunError(f"a worker returned {_short(result)} in place of a result")
            plan.take(order, result)
            taken += 1
        return taken, seconds
    except (BrokenExecutor, ScenarioError):
        # No other worker is there, or would do better.
        raise
    except OSError:
        # The disk is full: nothing is wrong with the worker.
        raise
    except Exception:
        for order in orders[taken:]:
            attempts[order] = attempts.get(order, 0) + 1
            if attempts[order] >= ATTEMPTS:
                raise
        for order in orders[taken:]:
            plan.give_back(order)
        return taken, 0.0


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
