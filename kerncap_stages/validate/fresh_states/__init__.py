"""The states in which inputs have fresh values, and in which the captured kernel tells something."""

from kerncap_stages.validate.fresh_states.inputs import FreshInputs

__all__ = ["FreshInputs"]
