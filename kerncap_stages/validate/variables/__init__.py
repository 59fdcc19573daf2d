"""Finds the module variables that are inputs of a kernel, and the types of what they hold."""

from kerncap_stages.validate.variables.inputs import find_input_variables, is_in_large_memory, name_variable
from kerncap_stages.validate.variables.types import cut_variable

__all__ = ["cut_variable", "find_input_variables", "is_in_large_memory", "name_variable"]
