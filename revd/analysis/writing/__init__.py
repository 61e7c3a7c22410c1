"""Reports, figures, films and CSV as files."""
