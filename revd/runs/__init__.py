"""One run: its config, its directory, and the training that fills it."""
