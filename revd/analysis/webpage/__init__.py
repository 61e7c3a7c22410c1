"""A report as one HTML page that needs neither a server nor a network."""
