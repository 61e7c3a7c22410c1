"""Statistics, figures and reports from run directories.

Reads files only and imports no training framework.

The sub-packages import one another in one direction: reading -> statistics -> drawing -> writing.
"""
