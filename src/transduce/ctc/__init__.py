"""Connectionist temporal classification (Graves et al. 2006): what its model, loss, searches and pictures share."""
