"""What a computation costs: refused before it starts, told while it runs."""
