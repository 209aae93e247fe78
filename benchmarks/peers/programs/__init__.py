"""Programs that run in the environment of a peer. They import the peer and no module of transduce."""
