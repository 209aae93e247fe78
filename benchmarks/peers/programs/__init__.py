"""Programs that run in the environment of a peer: they import the peer and nothing of ours."""
