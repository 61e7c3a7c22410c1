"""One run: a config goes in, a run directory comes out."""
