"""What each `wickgarten COMMAND` does."""
