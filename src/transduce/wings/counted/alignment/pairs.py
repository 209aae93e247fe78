"""``transduce.wings.alignment.links`` by its earlier name."""

from __future__ import annotations

from transduce.wings.alignment.links import NEIGHBOURS as NEIGHBOURS
from transduce.wings.alignment.links import Gold as Gold
from transduce.wings.alignment.links import Heuristic as Heuristic
from transduce.wings.alignment.links import Links as Links
from transduce.wings.alignment.links import symmetrise as symmetrise
