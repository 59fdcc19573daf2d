"""States in which inputs have fresh values, and from which the captured kernel's outputs tell something."""

from kerncap_stages.validate.fresh_states.choice import InputChoice, choose_inputs
from kerncap_stages.validate.fresh_states.inputs import FreshInputs

__all__ = ["FreshInputs", "InputChoice", "choose_inputs"]
