"""Many runs: grids as data, and the scheduler that trains them on this machine or a Ray cluster."""
