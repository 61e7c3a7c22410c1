"""From run directories to statistics, tables and figures. Reads files only: no framework is imported."""
