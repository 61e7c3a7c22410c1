"""Many runs: grids of trainings as data, and a scheduler that trains them on this machine or a Ray cluster."""
