"""Files that survive a crash: they are replaced atomically and checked when read."""
