"""From forward equations to recursions: fields, tensors, cumulants, one step."""
