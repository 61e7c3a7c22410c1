"""Run directories and searches as data, damaged ones told apart."""
