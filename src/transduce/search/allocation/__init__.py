"""Which continuations of a beam live on: allocations, a noun a file."""
