"""The table in libraries that read Arrow. Those that are not installed are left out."""

from __future__ import annotations

import gc
import importlib.util
import pathlib
import runpy
import unittest

from anabranch import lab
from test_lab import SMALL

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def needs(*modules: str):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"missing: {', '.join(missing)}")


class Arrow(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.runs = lab.scenario(SMALL).run(seeds=3)

    def check(self, columns: dict[str, list]) -> None:
        self.assertEqual(columns["loss (%)"], [0.0] * 3 + [5.0] * 3)
        self.assertEqual(columns["run"], [0, 1, 2] * 2)
        self.assertEqual(len(set(columns["seed"])), 6)
        times = [time for point in self.runs.values("transfer_time_s") for time in point]
        self.assertEqual(columns["transfer_time_s"], times)
        self.assertEqual(set(columns["command"]), {"lab.scenario('dict').run(seeds=3)"})

    @needs("pyarrow")
    def test_pyarrow(self) -> None:
        import pyarrow

        table = pyarrow.table(self.runs)
        table.validate(full=True)
        self.check(table.to_pydict())
        # Views of the table keep what they need.
        column = table.column("transfer_time_s")
        before = column.to_pylist()
        del table
        gc.collect()
        self.assertEqual(column.to_pylist(), before)
        missing = pyarrow.table(lab.scenario(STOPPED).run(seeds=2))
        self.assertEqual(missing.column("transfer_time_s").null_count, 2)
        missing.validate(full=True)

    @needs("pyarrow")
    def test_a_packet_is_a_row(self) -> None:
        import pyarrow

        trace = lab.scenario(SMALL).set(loss=5).trace(1)
        table = pyarrow.table(trace)
        table.validate(full=True)
        self.assertEqual(table.num_rows, len(trace))
        rows = table.to_pylist()
        self.assertEqual({row["way"] for row in rows}, {"sent", "received"})
        self.assertEqual(rows[0]["chunks"], "INIT")
        data = [row for row in rows if row["way"] == "sent" and row["tsn"] is not None]
        self.assertEqual(sorted({row["tsn"] for row in data})[:3], [0.0, 1.0, 2.0])
        self.assertGreater(sum(row["again"] for row in data), 0)
        self.assertEqual({row["seed"] for row in rows}, {trace.seed})

    @needs("polars")
    def test_polars(self) -> None:
        import polars

        self.check(polars.DataFrame(self.runs).to_dict(as_series=False))

    @needs("polars", "pyarrow")
    def test_numbers_are_not_copied(self) -> None:
        import polars
        import pyarrow

        for name in ["seed", "run", "transfer_time_s", "packets_sent"]:
            frames = [polars.DataFrame(self.runs)[name].to_arrow() for _ in range(2)]
            arrays = [*frames, pyarrow.table(self.runs).column(name).chunk(0)]
            self.assertEqual(len({array.buffers()[1].address for array in arrays}), 1, name)

    @needs("pandas", "pyarrow")
    def test_pandas(self) -> None:
        import pyarrow

        frame = pyarrow.table(self.runs).to_pandas()
        self.check({name: list(frame[name]) for name in frame})

    @needs("duckdb", "pyarrow")
    def test_duckdb(self) -> None:
        import duckdb
        import pyarrow

        runs = pyarrow.table(self.runs)
        rows = duckdb.sql('select "loss (%)", count(*) from runs group by 1 order by 1').fetchall()
        self.assertEqual(rows, [(0.0, 3), (5.0, 3)])
        del runs


class Joined(unittest.TestCase):
    @needs("polars", "pandas", "pyarrow", "duckdb")
    def test_runs_agree_with_the_table_of_the_original_simulator(self) -> None:
        example = runpy.run_path(str(EXAMPLES / "agreement.py"))
        ratios = example["in_polars"]()
        self.assertEqual(len(ratios), 3 * 6)
        for other in [example["in_pandas"](), example["in_duckdb"]()]:
            self.assertEqual(other.keys(), ratios.keys())
            for point, ratio in ratios.items():
                self.assertAlmostEqual(other[point], ratio, places=9)
        # Five runs of each point are not many.
        self.assertTrue(all(0.6 < ratio < 1.6 for ratio in ratios.values()), ratios)
        mean = sum(ratios.values()) / len(ratios)
        self.assertTrue(0.9 < mean < 1.1, mean)

    def test_without_a_library_it_is_a_dict(self) -> None:
        table = lab.scenario("caro/2.5").reference
        rows = table.to_dict()
        self.assertEqual(list(rows), table.columns)
        self.assertEqual({len(values) for values in rows.values()}, {len(table)})
        self.assertEqual(len(lab.scenario(SMALL).reference), 0)


# Half of its runs lose everything, so they do not end.
STOPPED = {
    **SMALL,
    "path": {"primary": {}},
    "measure": {"time_limit": "5 s"},
    "axis": {"loss": {"set": "path.primary.loss", "values": ["0 %", "100 %"]}},
}

if __name__ == "__main__":
    unittest.main()
