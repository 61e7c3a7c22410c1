"""Reading run directories and searches, and detecting damaged ones."""
