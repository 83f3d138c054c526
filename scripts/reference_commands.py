"""The page of the commands: the texts of ``--help``, as tables."""

import inspect

import click

from ticdc_spark.cli import main

_HEAD = """# Commands

What `ticdc-spark --help` and the help of each command say. Written by `scripts/reference.py` from the commands.

`-v` before the command logs more, and prints where an error was raised: `ticdc-spark -v replicate shop.toml`.
`--log-format json` before the command writes the [log](log.md) for programs. Exit codes
are on [the page of errors](errors.md).
"""


def commands() -> str:
    """The page."""
    context = click.Context(main, info_name="ticdc-spark")
    parts = [_HEAD]
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        parts.append(_section(name, command, context))
    return "\n".join(parts)


def _section(name: str, command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=name, parent=parent)
    first, *more = inspect.cleandoc(command.help or "").split("\n\n")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    rows = [_row(each) for each in command.params if isinstance(each, click.Option)]
    head = "| option | value | default | meaning |\n|---|---|---|---|\n"
    paragraphs = [_text(each) for each in more]
    options = [head + "\n".join(rows)] if rows else []
    return "\n\n".join([f"## {name}", _text(first), f"```text\n{usage}\n```", *options, *paragraphs]) + "\n"


def _text(paragraph: str) -> str:
    if paragraph.startswith("\b\n"):
        lines = "\n".join(line.strip() for line in paragraph.splitlines()[1:])
        return f"```text\n{lines}\n```"
    return " ".join(paragraph.split()).replace("${", "`${").replace("}", "}`")


def _row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    words = isinstance(option.type, click.Choice)
    value = "" if option.is_flag else option.metavar or ("" if words else option.type.name.upper())
    if isinstance(option.type, click.Choice):
        value = ", ".join(f"`{word}`" for word in option.type.choices)
    elif value:
        value = f"`{value}`"
    default = "required" if option.required else ""
    if option.show_default and option.default is not None and not option.is_flag:
        default = f"`{option.default}`"
    text = (option.help or "").replace("${env:NAME}", "`${env:NAME}`").replace("${file:PATH}", "`${file:PATH}`")
    several = option.multiple and "repeat" not in text.lower()
    return " | ".join(["| " + names, value, default, text + (" May be repeated." if several else "")]).rstrip() + " |"
