"""States in which inputs have fresh values, and from which the captured kernel's outputs tell something."""

from kerncap_stages.validate.fresh_states.inputs import FreshInputs

__all__ = ["FreshInputs"]
