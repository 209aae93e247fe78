"""Models that write all words at once and write the least certain ones again: mask-predict."""
