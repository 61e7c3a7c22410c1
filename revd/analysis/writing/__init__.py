"""Writing figures, films, CSV files, tables and reports."""
