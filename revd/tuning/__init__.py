"""Hyperparameter search: which parameters, over what; trials that are ordinary runs; Optuna that proposes them."""
