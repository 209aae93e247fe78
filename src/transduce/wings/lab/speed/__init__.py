"""How fast a run trains and answers on this machine, and which share of the machine's own speed that is."""
