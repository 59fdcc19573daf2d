"""Makes the state in which numbers that stand alone, and addresses in tables, are others than captured."""

from kerncap_stages.validate.lone.states import LoneStates

__all__ = ["LoneStates"]
