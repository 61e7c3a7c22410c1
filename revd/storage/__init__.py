"""Files that survive a crash: replaced whole, cut off anywhere, checked when read."""
