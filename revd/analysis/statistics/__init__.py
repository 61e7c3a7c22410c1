"""Curves, scores and confidence intervals from the episodes of runs, planned by figure."""
