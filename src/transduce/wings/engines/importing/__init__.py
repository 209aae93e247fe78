"""Makes runs of models that other toolkits have trained."""
