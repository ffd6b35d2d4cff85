"""The command `wickgarten model`: a model of the user's own, read and judged."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
from typing import Any

from derive.errors import InputError

from ..files import check_file, tell, write_text
from . import options, rows

_WANTED = "FILE.py:NAME, a Python file and a model in it, or a function that makes one"
_EXTRAS = {
    "torch": "torch",
    **dict.fromkeys(("jax", "flax", "equinox"), "jax"),
    **dict.fromkeys(("keras", "tensorflow"), "keras"),
}
"""The extra that brings a framework."""


def arguments(command: argparse.ArgumentParser) -> None:
    """The options of `wickgarten model`."""
    command.add_argument("model", metavar="FILE.py:NAME", help=f"{_WANTED}; the file is run")
    command.add_argument(
        "--inputs", metavar="FILE", help="a .npy or .csv file, a row each; two normal ones else"
    )
    command.add_argument(
        "--draws", type=int, help="initializations that are measured; else until it is decided"
    )
    command.add_argument("--seed", type=int, default=0, help="of the initializations")
    command.add_argument(
        "--output", metavar="NAME", help="of several outputs, the one that is meant: 0, policy, …"
    )
    command.add_argument(
        "--html", metavar="FILE", help="write the report there as a page; - is stdout"
    )
    rows.arguments(command, json="all of the report")
    command.add_argument(
        "--details", action="store_true", help="also how it was read, what follows, each verdict"
    )
    command.add_argument(
        "--more", action="store_true", help="resolve V and the spread of Theta, in up to a minute"
    )
    command.add_argument("--read", action="store_true", help="say what it is, and measure nothing")


def run(given: argparse.Namespace) -> int:
    """Print the report; 1 where what was measured disagrees with theory."""
    pages = {"--html": given.html, "--json": given.json, "--csv": given.csv}
    check_file("--html", given.html)
    inputs = None
    if given.inputs is not None:
        wanted = "a .npy or .csv file of numbers, a row for each input"
        if not given.inputs.endswith((".npy", ".csv")):
            raise InputError("--inputs", given.inputs, wanted)
        inputs = options.numbers("--inputs", given.inputs, wanted)
    model = _loaded(given.model)
    from numeric import models

    if given.read:
        print(models.read(model, inputs, output=given.output))
        return 0
    is_shown = "-" not in pages.values()
    found = models.report(
        model,
        inputs,
        draws=given.draws,
        more=given.more,
        seed=given.seed,
        output=given.output,
        say=(lambda line: print(line, flush=True)) if is_shown else None,
    )
    if is_shown:
        print(found.rest)
        if given.details:
            print(f"\n{found.details}")
    if given.csv is not None:
        rows.are_written(given, ("name", "value"), rows.leaves(json.loads(found.json())), ["csv"])
    for option, path in pages.items():
        if path is not None and option != "--csv":
            write_text(found.html() if option == "--html" else found.json(), path, option)
            tell(path)
    return 0 if found.agrees else 1


def _is_own(value: Any, module: str) -> bool:
    return callable(value) and getattr(value, "__module__", "") == module


def _loaded(text: str) -> Any:
    """NAME of FILE.py, run as Python runs it: its folder is the first that imports look in."""
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py") or not all(map(str.isidentifier, name.split("."))):
        raise InputError("model", text, _WANTED)
    if not os.path.isfile(path):
        raise InputError("model", path, "a Python file")
    module_name = os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # of the user's file
        told = f"{path}, which raises {type(error).__name__}: {error}"
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        extra = _EXTRAS.get((missing or "").partition(".")[0])
        hint = f", with pip install 'wickgarten[{extra}]'" if extra else ""
        raise InputError("model", told, f"a file that runs{hint}") from error
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [key for key, own in vars(module).items() if _is_own(own, module_name)]
            told = f" that it defines: {', '.join(names)}" if names else ", which defines none"
            raise InputError("model", text, f"a name in {path}{told}")
        found = getattr(found, part)
    return found
