"""The exact search for nearest neighbours: on a CPU in tiles, on a GPU in Triton kernels."""
