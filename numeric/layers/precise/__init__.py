"""The recursions to any number of digits, in balls: numbers that carry a bound of their error."""
