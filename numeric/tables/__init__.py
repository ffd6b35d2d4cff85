"""The table that flow and simulate return: its layout, normalised, compared, drawn."""
