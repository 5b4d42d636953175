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

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _anabranch
from ._anabranch import RunError, ScenarioError, StoreError, Table
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
    "Table",
    "Trace",
    "Verdicts",
    "report",
    "scenario",
    "scenarios",
]

Value = Union[str, int, float, bool]
"""A value of a field or an axis. Texts have their units: ``"3 %"``, ``"90 ms"``."""

Workers = Union[Executor, str, None]
"""Who carries out the runs: threads of this process, an executor of ``concurrent.futures``, or ``"ray"``."""

Progress = Union[bool, None, Callable[[int, int], None]]
"""Whether to show progress: by default in terminals and notebooks. Or who hears of it: runs that are done, and all."""


def scenarios(document: str | None = None) -> list[str]:
    """The names of the scenarios in the package, or only those of a document.

    >>> scenarios("fairness")[0].split("/")[0]
    'fairness'
    """
    clean_up()
    names = _anabranch.scenarios()
    return [name for name in names if document in (None, name.partition("/")[0])]


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

    @property
    def reference(self) -> Table:
        """The numbers of the original simulator: a table with the axes, ``metric``, ``mean``, ``half`` (half the width of
        the 90 % interval), ``n``, ``median`` and ``incomplete``. Libraries that read Arrow take it, too.

        >>> theirs = scenario("caro/2.5").reference
        >>> theirs.columns[:5]
        ['profile', 'policy', 'primary_loss (%)', 'alternate_loss (%)', 'metric']
        """
        return self._inner.reference()

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
        executor: Workers = None,
        workers: int | None = None,
        out: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Results:
        """Carries out every point as often as the scenario says, or ``seeds`` times.

        The runs use ``jobs`` threads, by default one for each core, without Python's lock. With an ``executor`` its
        workers carry them out; ``workers`` is how many it has, if it does not tell. ``executor="ray"`` uses the cluster
        of Ray that this process is connected to, or makes one of this machine.

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
                with _executor(executor) as known:
                    inner, said = self._by(known, workers, seeds, out, show)
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
        try:
            drive(plan, executor, workers, show)
        except BaseException:
            # What is finished is kept.
            plan.finish()
            raise
        return plan.finish(), plan.warnings

    def check(
        self,
        *,
        full: bool = False,
        seeds: int | None = None,
        reference: bool = False,
        jobs: int | None = None,
        executor: Workers = None,
        workers: int | None = None,
        out: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Verdicts:
        """Checks the results against the claims of the scenario, as ``anabranch lab check``.

        Each point is run until the verdicts of its claims are decided at 90 % confidence, at most as often as the
        scenario says; with ``full`` as often as it says, with ``seeds`` this often. With ``reference``, all numbers of
        the original simulator are compared, too. A scenario with fields set has the claims of the one without: it
        tells which of them hold nevertheless. The other arguments are those of ``run``.
        """
        if full and seeds is not None:
            raise ValueError("full and seeds exclude each other: both say how often a point is run")
        mode = "full" if full else "sequential" if seeds is None else "fixed"
        said = {"full": full, "seeds": seeds, "reference": reference}
        question = _Asked(self, mode, seeds, False, reference, _call(self, "check", said))
        return question.answer(jobs, executor, workers, out, progress)

    def report(
        self,
        file: str | os.PathLike[str],
        *,
        seeds: int | None = None,
        decided: bool = False,
        distributions: bool = False,
        jobs: int | None = None,
        executor: Workers = None,
        workers: int | None = None,
        out: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Verdicts:
        """Writes the page of ``anabranch lab report`` about this scenario: see ``report``."""
        return report(
            [self],
            file,
            seeds=seeds,
            decided=decided,
            distributions=distributions,
            jobs=jobs,
            executor=executor,
            workers=workers,
            out=out,
            progress=progress,
        )[0]

    def trace(
        self,
        run: int = 0,
        *,
        pcap: str | os.PathLike[str] | None = None,
        qlog: str | os.PathLike[str] | None = None,
    ) -> Trace:
        """Carries out one run of the first point, and tells what happened in it, as ``anabranch lab trace``.

        Writes the sender's packets to ``pcap``, for Wireshark, and what it did and decided to ``qlog``.

        >>> point = scenario("caro/2.5").set(primary_loss=3, alternate_loss=0, policy="AllRtxAlt")
        >>> trace = point.trace(7)
        >>> len(trace) > 2900, list(trace.series("cwnd_bytes"))
        (True, ['primary', 'alternate'])
        """
        if run < 0:
            raise ValueError(f"run is {run}, below 0")
        command = _call(self, "trace", {"run": run})
        inner = _anabranch.trace(self._inner, run, pcap, qlog, command)
        return Trace(self, inner, run, command)

    def __repr__(self) -> str:
        return f"<Scenario {self.id}: {self.title}, {len(self.points)} points>"


class Results:
    """The runs of a scenario. Libraries that read Arrow take it as a table with one row a run."""

    def __init__(
        self,
        scenario: Scenario,
        inner: _anabranch.Results,
        seeds: int | None,
        command: str | None = None,
    ) -> None:
        self.scenario = scenario
        self._inner = inner
        self.command = command or _call(scenario, "run", {"seeds": seeds})
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


class Verdicts:
    """Which claims of a scenario hold."""

    def __init__(self, scenario: Scenario, inner: _anabranch.Checked, command: str) -> None:
        self.scenario = scenario
        self._inner = inner
        self.command = command
        """The call that made it."""

    @property
    def document(self) -> dict[str, Any]:
        """What ``anabranch lab check --json`` writes: docs/schemas has its schema."""
        document: dict[str, Any] = json.loads(self._inner.document(self.command))
        return document

    @property
    def claims(self) -> list[dict[str, Any]]:
        """The claims: ``id``, ``expected``, ``measured``, ``interval``, ``verdict``, ``seeds`` and so on. A table for
        ``polars.DataFrame`` or ``pandas.DataFrame``."""
        claims: list[dict[str, Any]] = self.document["claims"]
        return claims

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each claim: ``holds``, ``fitted``, ``differs``, ``refuted`` or ``open``."""
        return {claim["id"]: claim["verdict"] for claim in self.claims}

    @property
    def unexplained(self) -> list[str]:
        """Claims that differ, where the scenario does not say why. ``anabranch lab check`` fails if there are any."""
        return self._inner.unexplained()

    @property
    def runs(self) -> Results:
        """The runs that decided."""
        return Results(self.scenario, self._inner.results(), None, self.command)

    def markdown(self) -> str:
        """The table that ``anabranch lab check --markdown`` writes."""
        return self._inner.markdown()

    def agreement(self) -> str:
        """The table of agreement with the original simulator; empty if it was not asked for."""
        return self._inner.agreement_markdown()

    def __repr__(self) -> str:
        counts = self.document["verdicts"]
        said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
        return f"<Verdicts of {self.scenario.id}: {said or 'no claims'}>"

    def _repr_markdown_(self) -> str:
        return self.markdown()


class Trace:
    """One run in detail. Libraries that read Arrow take it as a table with one row a packet."""

    def __init__(
        self, scenario: Scenario, inner: _anabranch.Trace, run: int, command: str
    ) -> None:
        self.scenario, self.run = scenario, run
        self._inner = inner
        self.command = command
        """The call that made it: a column of the tables."""

    @property
    def point(self) -> str:
        """The point: ``axis=value`` for each axis."""
        return self._inner.point

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self._inner.seed

    @property
    def fingerprint(self) -> str:
        """A fingerprint of all packets: equal runs have equal ones."""
        return f"{self._inner.hash:016x}"

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the run."""
        return dict(self._inner.metrics)

    def series(self, name: str) -> dict[str, list[tuple[float, float]]]:
        """Times in seconds, and values, for each path: ``cwnd_bytes``, ``flight_bytes``, ``srtt_s``, ``rto_s`` and
        ``queue_packets``; and for each transfer ``goodput_kbit_s``."""
        return dict(self._inner.series(name))

    def __len__(self) -> int:
        return len(self._inner)

    def __arrow_c_stream__(self, requested_schema: object = None) -> CapsuleType:
        """The SCTP packets of the first transfer at the sender's interfaces: ``time_s``, ``way`` (``sent`` or
        ``received``), ``path``, ``from``, ``to``, ``bytes``, ``chunks``, ``tsn``, ``again``, ``seed``, and what made
        the run. ``tsn`` counts from 0; of acknowledgements it is the cumulative one."""
        return self._inner.arrow(self.command)

    def to_csv(self, file: str | os.PathLike[str]) -> None:
        """Writes all series, as ``anabranch lab trace --csv``."""
        Path(file).write_text(self._inner.csv(self.command), encoding="utf-8", newline="\n")

    def to_html(self, file: str | os.PathLike[str]) -> None:
        """Writes the charts, as ``anabranch lab trace --html``."""
        Path(file).write_text(self._inner.html(self.command), encoding="utf-8", newline="\n")

    def charts(self) -> dict[str, str]:
        """The charts, as SVG."""
        return dict(self._inner.charts())

    def __repr__(self) -> str:
        return f"<Trace of {self.scenario.id} at {self.point}, run {self.run}: {len(self)} packets>"

    def _repr_html_(self) -> str:
        return "\n".join(self.charts().values())


def report(
    scenarios: Sequence[Scenario],
    file: str | os.PathLike[str],
    *,
    seeds: int | None = None,
    decided: bool = False,
    distributions: bool = False,
    jobs: int | None = None,
    executor: Workers = None,
    workers: int | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> list[Verdicts]:
    """Writes one HTML page with charts, claims and reference numbers, as ``anabranch lab report``, and returns the
    verdicts of each scenario.

    Every point is run as often as the scenario says, or ``seeds`` times, or with ``decided`` only as often as the
    verdicts need. With ``distributions``, the runs themselves are drawn, too. The other arguments are those of
    ``Scenario.run``.
    """
    if decided and seeds is not None:
        raise ValueError("decided and seeds exclude each other: both say how often a point is run")
    mode = "sequential" if decided else "full" if seeds is None else "fixed"
    said = {"seeds": seeds, "decided": decided, "distributions": distributions}
    answers = []
    for one in scenarios:
        question = _Asked(one, mode, seeds, True, False, _call(one, "report", said))
        answers.append(question.answer(jobs, executor, workers, out, progress))
    command = "\n".join(answer.command for answer in answers)
    page = _anabranch.report_page([one._inner for one in answers], distributions, command)
    Path(file).write_text(page, encoding="utf-8", newline="\n")
    return answers


class _Asked:
    """A question about a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        mode: str,
        seeds: int | None,
        is_for_report: bool,
        compares: bool,
        command: str,
    ) -> None:
        _check("seeds", seeds)
        self._scenario, self._command = scenario, command
        self._inner = _anabranch.Question(scenario._inner, mode, seeds, is_for_report, compares)

    def answer(
        self,
        jobs: int | None,
        executor: Workers,
        workers: int | None,
        out: str | os.PathLike[str] | None,
        progress: Progress,
    ) -> Verdicts:
        for name, number in [("jobs", jobs), ("workers", workers)]:
            _check(name, number)
        show = _progress(progress, self._scenario.id)
        try:
            if executor is None:
                inner, said = self._inner.on_threads(jobs, out, show)
            else:
                with _executor(executor) as known:
                    work = partial(_drive_in_turn, known, workers, _Sum(show))
                    inner, said = self._inner.by(work, out)
        finally:
            if isinstance(show, _Line):
                show.end()
        for sentence in said:
            warnings.warn(sentence, stacklevel=4)
        return Verdicts(self._scenario, inner, self._command)


class _Sum:
    """Progress over several plans, one after the other."""

    def __init__(self, show: Callable[[int, int], None] | None) -> None:
        self._show, self._before, self._done = show, 0, 0

    def next(self) -> None:
        self._before, self._done = self._before + self._done, 0

    def __call__(self, done: int, total: int) -> None:
        self._done = done
        if self._show is not None:
            self._show(self._before + done, self._before + total)


@contextmanager
def _executor(executor: Executor | str) -> Iterator[Executor]:
    """The executor of the user, or one that is known by its name and ends here."""
    if not isinstance(executor, str):
        yield executor
        return
    if executor != "ray":
        raise ValueError(f"there is no executor '{executor}': 'ray' is the only one with a name")
    try:
        from .ray import RayExecutor
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Ray is not there: pip install anabranch[ray]") from error
    known = RayExecutor()
    try:
        yield known
    finally:
        known.shutdown(cancel_futures=True)


def _drive_in_turn(
    executor: Executor, workers: int | None, show: _Sum, plan: _anabranch.Plan
) -> None:
    drive(plan, executor, workers, show)
    show.next()


def _call(scenario: Scenario, method: str, said: Mapping[str, object]) -> str:
    """The call as one would write it, with the arguments that differ from nothing."""
    of = scenario._what if scenario._text is None else "dict"
    changes = f".set({scenario._changes!r})" if scenario._changes else ""
    words = ", ".join(f"{key}={value!r}" for key, value in said.items() if value not in (None, False))
    return f"lab.scenario({str(of)!r}){changes}.{method}({words})"


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
