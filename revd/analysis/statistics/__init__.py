"""From returns to numbers with intervals."""
