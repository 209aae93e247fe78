"""Connectionist temporal classification (Graves et al. 2006): the part that its model, loss, searches and pictures
share.
"""
