"""Launchers that start runs: as processes of this machine, or on the nodes of a Ray cluster."""
