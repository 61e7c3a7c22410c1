"""Hyperparameter search with Optuna. Every trial is one or more ordinary runs."""
