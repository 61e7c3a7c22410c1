"""Curves, scores and confidence intervals from the episodes of runs, and which runs belong to which figure."""
