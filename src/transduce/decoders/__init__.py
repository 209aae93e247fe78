"""Decoders: started from a ``Memory``, extended token by token or all at once."""
