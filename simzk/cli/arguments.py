"""Errors of arguments, in the one form of all commands: which option, what is wrong, and what is accepted."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from simzk.errors import ConfigError

_INVALID_NUMBER = re.compile(r"invalid (int|float) value: (.*)")
_VALIDATED = "Input should be "
_NUMBERS = {"int": "a whole number", "float": "a number"}


class CommandParser(argparse.ArgumentParser):
    """Parser of a command that starts without Typer, because it starts often."""

    def error(self, message: str) -> NoReturn:
        """Raise a ConfigError; argparse itself would print the usage and exit.

        >>> CommandParser(prog="simzk kafka").error("argument --brokers: invalid int value: 'x'")
        Traceback (most recent call last):
        simzk.errors.ConfigError: --brokers: 'x' is not a whole number; expected the options of simzk kafka --help
        """
        option, _, what = message.removeprefix("argument ").partition(": ")
        if not message.startswith("argument "):
            option, what = "", message
        what = _INVALID_NUMBER.sub(lambda found: f"{found[2]} is not {_NUMBERS[found[1]]}", what)
        raise ConfigError(what, where=option, right=f"the options of {self.prog} --help")


def usage_problem(error: Exception) -> ConfigError:
    """Return what Typer says about the arguments of a command, in the form of all commands.

    Args:
        error: a usage error of Typer. A value that its validator rejects is in the cause, and not in the message.
    """
    message = str(getattr(error, "message", "") or error).rstrip(".")
    details: list[dict[str, object]] = getattr(error.__cause__, "errors", list)()
    if details:
        message = message.replace(_VALIDATED, f"{details[0].get('input')!r} is not ").partition(", unable to")[0]
    option = next(iter(getattr(getattr(error, "param", None), "opts", ())), "") if details else ""
    context = getattr(error, "ctx", None)
    command = "simzk" if context is None else context.command_path
    return ConfigError(message, where=option, right=f"the options of {command} --help")
