"""The laboratory: experiments described in files or dicts, on the cores of this machine or of many.

>>> from anabranch import lab
>>> figure = lab.scenario("caro/2.5")
>>> figure.axes["policy"]
['AllRtxAlt', 'AllRtxSame', 'FrSameRtoAlt']
>>> small = figure.set(profile="rfc9260", primary_loss=3, alternate_loss=0)
>>> runs = small.run(seeds=2, progress=False)
>>> [len(point) for point in runs.values("transfer_time_s")]
[2, 2, 2]

A table of all runs, one row each, goes to any library that reads Arrow, without a copy::

    polars.DataFrame(runs)
    pyarrow.table(runs)
    duckdb.from_arrow(pyarrow.table(runs))

Results do not depend on who carries out the runs: the same line with ``executor=`` uses a pool of processes, Dask
(``client.get_executor()``), submitit, or MPI, and gives the same bytes.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _anabranch
from ._anabranch import RunError, ScenarioError, StoreError
from ._drive import drive
from ._temporary import clean_up
from ._toml import dumps

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

__all__ = [
    "Results",
    "RunError",
    "Scenario",
    "ScenarioError",
    "StoreError",
    "scenario",
    "scenarios",
]

Value = Union[str, int, float, bool]
"""A value of a field or an axis. Texts have their units: ``"3 %"``, ``"90 ms"``."""

Progress = Union[bool, None, Callable[[int, int], None]]
"""Whether to show progress: by default in terminals and notebooks. Or who hears of it: runs that are done, and all."""


def scenarios() -> list[str]:
    """The names of the scenarios in the package.

    >>> "caro/2.5" in scenarios()
    True
    """
    clean_up()
    return _anabranch.scenarios()


def scenario(what: str | os.PathLike[str] | Mapping[str, Any]) -> Scenario:
    """A scenario: the name of one in the package, a file that ends in ``.toml``, or a dict with what a file has.

    Raises ``ScenarioError`` with the line and the reason if it is refused. The lines of a dict are those of
    ``Scenario.text``.

    >>> scenario({"title": 1})
    Traceback (most recent call last):
        ...
    anabranch._anabranch.ScenarioError: dict.toml:1: title is a number without unit, not a text
    """
    if isinstance(what, Mapping):
        return Scenario(what, dumps(what), {})
    return Scenario(what, None, {})


class Scenario:
    """An experiment and the axes along which it is varied. It cannot be changed: ``set`` returns another one."""

    def __init__(self, what: Any, text: str | None, changes: Mapping[str, str]) -> None:
        clean_up()
        self._what, self._text, self._changes = what, text, dict(changes)
        pairs = list(self._changes.items())
        if text is not None:
            file = Path.cwd() / "dict.toml"
            try:
                self._inner = _anabranch.Scenario.text("dict", file, text, pairs)
            except ScenarioError as error:
                # There is no such file to look into.
                raise ScenarioError(str(error).replace(str(file), file.name, 1)) from None
        elif isinstance(what, os.PathLike) or str(what).endswith(".toml"):
            self._inner = _anabranch.Scenario.file(what, pairs)
        elif what in _anabranch.scenarios():
            self._inner = _anabranch.Scenario.library(what, pairs)
        else:
            raise ScenarioError(f"there is no scenario '{what}': lab.scenarios() names them")

    @property
    def id(self) -> str:
        """Its name."""
        return self._inner.id

    @property
    def title(self) -> str:
        """The title, one line."""
        return self._inner.title

    @property
    def text(self) -> str | None:
        """The text that a dict was written as; ``None`` for others."""
        return self._text

    @property
    def sha256(self) -> str:
        """The hash of all values in it, as in ``anabranch lab run --json``."""
        return self._inner.sha256

    @property
    def resolved(self) -> str:
        """All values in it, one a line, whose hash is ``sha256``."""
        return self._inner.resolved

    @property
    def axes(self) -> dict[str, list[str]]:
        """The axes, and the spelling of their values."""
        return dict(self._inner.axes)

    @property
    def points(self) -> list[str]:
        """The points, in the order of the results."""
        return self._inner.points

    def set(
        self,
        changes: Mapping[str, Value | Sequence[Value]] | None = None,
        **axes: Value | Sequence[Value],
    ) -> Scenario:
        """The scenario with fields set, by their paths, and axes narrowed to a value or several.

        >>> small = scenario("caro/2.5").set({"association.pmr": 0}, policy="AllRtxAlt")
        >>> small.axes["policy"]
        ['AllRtxAlt']
        """
        new = {key: _spelled(value) for key, value in {**(changes or {}), **axes}.items()}
        return Scenario(self._what, self._text, {**self._changes, **new})

    def run(
        self,
        *,
        seeds: int | None = None,
        jobs: int | None = None,
        executor: Executor | None = None,
        workers: int | None = None,
        out: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Results:
        """Carries out every point as often as the scenario says, or ``seeds`` times.

        The runs use ``jobs`` threads, by default one for each core, without Python's lock. With an ``executor`` its
        workers carry them out; ``workers`` is how many it has, if it does not tell.

        With ``out``, finished runs are kept in this directory, which the program ``anabranch lab run --out`` can use,
        too: the same call goes on where an earlier one was stopped, or killed. Ctrl-C stops after the runs that have
        begun.
        """
        for name, number in [("seeds", seeds), ("jobs", jobs), ("workers", workers)]:
            _check(name, number)
        show = _progress(progress, self.id)
        try:
            if executor is None:
                inner, said = _anabranch.run(self._inner, seeds, jobs, out, show)
            else:
                inner, said = self._by(executor, workers, seeds, out, show)
        finally:
            if isinstance(show, _Line):
                show.end()
        for sentence in said:
            warnings.warn(sentence, stacklevel=2)
        return Results(self, inner, seeds)

    def _by(
        self,
        executor: Executor,
        workers: int | None,
        seeds: int | None,
        out: str | os.PathLike[str] | None,
        show: Callable[[int, int], None] | None,
    ) -> tuple[_anabranch.Results, list[str]]:
        plan = _anabranch.Plan(self._inner, seeds, 1, out)
        count = workers or getattr(executor, "_max_workers", None) or os.cpu_count() or 1
        try:
            drive(plan, executor, int(count), show)
        except BaseException:
            # What is finished is kept.
            plan.finish()
            raise
        return plan.finish(), plan.warnings

    def __repr__(self) -> str:
        return f"<Scenario {self.id}: {self.title}, {len(self.points)} points>"


class Results:
    """The runs of a scenario. Libraries that read Arrow take it as a table with one row a run."""

    def __init__(self, scenario: Scenario, inner: _anabranch.Results, seeds: int | None) -> None:
        self.scenario = scenario
        self._inner = inner
        of = scenario._what if scenario._text is None else "dict"
        changes = f".set({scenario._changes!r})" if scenario._changes else ""
        count = "" if seeds is None else f"seeds={seeds}"
        self.command = f"lab.scenario({str(of)!r}){changes}.run({count})"
        """The call that made it: a column of the tables."""

    def __len__(self) -> int:
        return len(self._inner)

    def __repr__(self) -> str:
        return f"<Results of {self.scenario.id}: {len(self)} runs of {len(self.scenario.points)} points>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """The table, by Arrow's PyCapsule interface: axes, ``run``, ``seed``, metrics, and what made them."""
        return self._inner.arrow(self.command)

    def values(self, metric: str) -> list[list[float | None]]:
        """The values of a metric: a list for each point, in the order of ``scenario.points``. ``None`` where a run has
        not measured it."""
        return self._inner.values(metric)

    def points(self) -> Iterator[tuple[str, int]]:
        """The points, and how many runs each has."""
        return zip(self.scenario.points, self._inner.counts)

    def to_csv(self, file: str | os.PathLike[str]) -> None:
        """Writes one row a run, as ``anabranch lab run --csv``."""
        Path(file).write_text(self._inner.csv(self.command), encoding="utf-8", newline="\n")

    def to_parquet(self, file: str | os.PathLike[str]) -> None:
        """Writes the same as Apache Parquet."""
        Path(file).write_bytes(self._inner.parquet(self.command))

    def charts(self) -> dict[str, str]:
        """The charts of the scenario's figure, as SVG. Hollow marks are the original simulator's."""
        return dict(self._inner.charts())

    def _repr_html_(self) -> str:
        return "\n".join(self.charts().values())


def _spelled(value: Value | Sequence[Value]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, Sequence):
        return ",".join(_spelled(item) for item in value)
    raise TypeError(f"{value!r} is no value: use texts, numbers, booleans, and lists of them")


def _check(name: str, number: int | None) -> None:
    if number is not None and not 1 <= number <= 100_000:
        raise ValueError(f"{name} is {number}, outside 1 to 100000")


class _Line:
    """A line in a terminal or a notebook."""

    def __init__(self, title: str) -> None:
        self._title, self._last = title, ""

    def __call__(self, done: int, total: int) -> None:
        text = f"{self._title}: {done} of {total} runs"
        if text != self._last and total:
            self._last = text
            print(f"\r{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._last:
            print(file=sys.stderr)


def _progress(progress: Progress, title: str) -> Callable[[int, int], None] | None:
    if callable(progress):
        return progress
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    return _Line(title) if progress else None
