"""Figures and films with matplotlib: every function takes numbers and gives axes or figures."""
