"""Options that several commands share as one parameter: a dataclass, with an option for each field.

@dataclass(frozen=True)
class Bounds:
    rtol: RtolOption = None

@app.command()
@spread
def command(bounds: Bounds) -> None: ...        # has --rtol
"""

from __future__ import annotations

import inspect
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of its parameter whose type is a dataclass, in the place of that one.

    Each field needs a default value.
    """
    signature = inspect.signature(function, eval_str=True)
    (group,) = (each for each in signature.parameters.values() if is_dataclass(each.annotation))
    hints = get_type_hints(group.annotation, include_extras=True)
    options = [
        inspect.Parameter(each.name, group.kind, default=each.default, annotation=hints[each.name])
        for each in fields(group.annotation)
    ]

    @wraps(function)
    def command(**given: Any) -> Any:
        values = {each.name: given.pop(each.name) for each in options}
        return function(**given, **{group.name: group.annotation(**values)})

    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        parameters += options if each.name == group.name else [each]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command
