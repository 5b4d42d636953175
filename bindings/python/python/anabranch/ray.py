"""An executor for ``anabranch.lab`` that uses a cluster of Ray: ``pip install anabranch[ray]``.

    from anabranch.ray import RayExecutor

    with RayExecutor("auto") as ray:
        runs = lab.scenario("caro/2.5").run(executor=ray, out="results")

``executor="ray"`` does the same, and uses the cluster that this process is connected to, or a new one on this machine.

Every node needs this package in the same version; others are refused. Nodes may come and go: what a lost one had not
finished is carried out again, up to three times, and a new one gets work within a second.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import ray

from ._drive import ATTEMPTS

__all__ = ["RayExecutor"]

T = TypeVar("T")


class RayExecutor(Executor):
    """Carries out calls as tasks of Ray, each on one core.

    ``address`` is that of a cluster, as for ``ray.init``; without one, it is the cluster that this process is connected
    to, or a new one on this machine. A connection that it made ends with it.
    """

    def __init__(self, address: str | None = None, **options: Any) -> None:
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            ray.init(address=address, **{"log_to_driver": False, **options})
        # Ray itself starts a task again if its node dies.
        self._call: Any = ray.remote(max_retries=ATTEMPTS, num_cpus=1)(_call)
        self._open: set[Future[Any]] = set()

    @property
    def workers(self) -> int:
        """Cores of the nodes that are there now."""
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call, unused-ignore]
        return max(1, int(resources.get("CPU", 1)))

    def submit(self, function: Callable[..., T], /, *arguments: Any, **more: Any) -> Future[T]:
        """Hands out a call."""
        reference = self._call.remote(function, arguments, more)
        future: Future[T] = reference.future()
        self._open.add(future)

        def done(_: Future[T]) -> None:
            self._open.discard(future)
            if future.cancelled() and ray.is_initialized():
                ray.cancel(reference)

        future.add_done_callback(done)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends it. Waits for the calls that were handed out, or cancels them."""
        for future in list(self._open):
            if cancel_futures:
                future.cancel()
            elif wait:
                future.exception()
        self._open.clear()
        if self._is_ours:
            self._is_ours = False
            ray.shutdown()


def _call(function: Callable[..., T], arguments: tuple[Any, ...], more: dict[str, Any]) -> T:
    return function(*arguments, **more)
