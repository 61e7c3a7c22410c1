"""Trainings as data: a config goes in, a run directory comes out."""
