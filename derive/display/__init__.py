"""How objects show themselves: text at a prompt, mathematics in a notebook, lines that fit."""
