"""Criticality and large depth: fixed points, closed systems, their asymptotics."""
