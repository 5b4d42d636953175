"""Our runs of a figure of 2004, joined with the table of the original simulator (ns-2), point by point: in polars, in
pandas, and in DuckDB. Needs polars, pandas, pyarrow and duckdb.
"""

import duckdb
import polars
import pyarrow

from anabranch import lab

figure = lab.scenario("caro/2.5").set(profile="rfc4960", primary_loss=3)
runs = figure.run(seeds=5, progress=False)
axes = ["policy", "alternate_loss (%)"]


def in_polars() -> dict[tuple[str, float], float]:
    """Our mean as a multiple of ns-2's."""
    theirs = polars.DataFrame(figure.reference).filter(polars.col("metric") == "transfer_time_s")
    ours = polars.DataFrame(runs).group_by(axes).agg(polars.col("transfer_time_s").mean())
    both = ours.join(theirs, on=axes)
    rows = both.select(*axes, ratio=polars.col("transfer_time_s") / polars.col("mean")).iter_rows()
    return {(policy, loss): ratio for policy, loss, ratio in rows}


def in_pandas() -> dict[tuple[str, float], float]:
    """The same."""
    theirs = pyarrow.table(figure.reference).to_pandas().query("metric == 'transfer_time_s'")
    ours = pyarrow.table(runs).to_pandas().groupby(axes, as_index=False)["transfer_time_s"].mean()
    both = ours.merge(theirs, on=axes)
    return dict((both["transfer_time_s"] / both["mean"]).set_axis(list(zip(*(both[axis] for axis in axes)))))


def in_duckdb() -> dict[tuple[str, float], float]:
    """The same."""
    connection = duckdb.connect()
    connection.register("ours", pyarrow.table(runs))
    connection.register("theirs", pyarrow.table(figure.reference))
    rows = connection.sql(
        """
        select policy, "alternate_loss (%)", avg(transfer_time_s) / any_value(mean)
        from ours join theirs using (policy, "alternate_loss (%)")
        where metric = 'transfer_time_s' group by all
        """
    ).fetchall()
    return {(policy, loss): ratio for policy, loss, ratio in rows}


if __name__ == "__main__":
    for (policy, loss), ratio in sorted(in_polars().items()):
        print(f"{policy:13} {loss:4.0f} % {ratio:6.2f}")
