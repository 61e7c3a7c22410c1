"""Figures and films with matplotlib.

Functions take numbers and return axes or figures; none writes a file.
"""
