"""``transduce.links`` by its earlier name."""

from __future__ import annotations

from transduce.links import NEIGHBOURS as NEIGHBOURS
from transduce.links import Gold as Gold
from transduce.links import Heuristic as Heuristic
from transduce.links import Links as Links
from transduce.links import symmetrise as symmetrise
