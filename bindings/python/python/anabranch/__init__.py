"""SCTP: on asyncio in ``anabranch.aio``, and experiments with it in ``anabranch.lab``, and in networks of one's own in
``anabranch.sim``. ``anabranch.pcap`` analyzes captures, and ``anabranch.advise`` says which options suit a network.

>>> from anabranch import lab
>>> small = lab.scenario("caro/2.5").set(profile="rfc9260", primary_loss="3 %", alternate_loss="0 %")
>>> len(small.run(seeds=2, progress=False))
6
"""

from ._anabranch import COMMIT as __commit__
from ._anabranch import ENGINE as __engine__
from ._anabranch import VERSION as __version__
from ._anabranch import RunError, ScenarioError, StoreError

__all__ = ["RunError", "ScenarioError", "StoreError", "__commit__", "__engine__", "__version__"]
