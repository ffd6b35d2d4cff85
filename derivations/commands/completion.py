"""The command `wickgarten completion`: a script with which a shell completes commands.

eval "$(wickgarten completion bash)"                       # or zsh
wickgarten completion fish | source
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

_SHELLS = ("bash", "zsh", "fish")

_BASH = """\
_wickgarten() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{commands} --help --version"
    else
        case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
        *) case "${{COMP_WORDS[1]}}" in
{options}
            esac ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _wickgarten wickgarten
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"


def arguments(command: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    command.add_argument("shell", choices=_SHELLS, help="the shell that is to complete")


def script(shell: str, parser: argparse.ArgumentParser) -> str:
    """The script for a shell, from the commands of this parser."""
    commands = _commands(parser)
    if shell == "fish":
        return "\n".join(_fish(commands)) + "\n"
    values = [
        f'        "{name} {option}") words="{" ".join(chosen)}" ;;'
        for name, each in commands.items()
        for option, chosen in _values(each)
    ]
    options = [
        f'            {name}) words="{" ".join(_options(each))}" ;;'
        for name, each in commands.items()
    ]
    text = _BASH.format(
        commands=" ".join(commands), values="\n".join(values), options="\n".join(options)
    )
    return _ZSH + text if shell == "zsh" else text


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (found,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return dict(found.choices)


def _options(command: argparse.ArgumentParser) -> list[str]:
    """The long options of a command, and the values of arguments without one."""
    found = [name for each in command._actions for name in each.option_strings if name[1] == "-"]
    given = (each for each in command._actions if not each.option_strings)
    return [*found, *(str(value) for each in given for value in each.choices or ())]


def _values(command: argparse.ArgumentParser) -> Iterator[tuple[str, list[str]]]:
    """The options that take one of some values."""
    for each in command._actions:
        chosen = list(map(str, each.choices)) if each.choices else _names(each.dest)
        if chosen:
            yield from ((option, chosen) for option in each.option_strings)


def _names(argument: str) -> list[str]:
    """The names that an argument without fixed choices knows."""
    from derive.activations import names

    from . import options

    plain = [name for name in names() if name.isidentifier()]
    return {"activation": plain, "weights": list(options.WEIGHTS)}.get(argument, [])


def _fish(commands: dict[str, argparse.ArgumentParser]) -> Iterator[str]:
    first = "complete -c wickgarten -n __fish_use_subcommand -f -a"
    yield f"{first} '{' '.join(commands)}'"
    for name, command in commands.items():
        chosen = dict(_values(command))
        for option in _options(command):
            line = f"complete -c wickgarten -n '__fish_seen_subcommand_from {name}'"
            if not option.startswith("--"):
                yield f"{line} -f -a {option}"
            elif option in chosen:
                yield f"{line} -l {option[2:]} -x -a '{' '.join(chosen[option])}'"
            else:
                yield f"{line} -l {option[2:]}"
