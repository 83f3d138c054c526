"""Renders a page as HTML. Every text is escaped here: names, errors and SQL come from elsewhere."""

from html import escape
from urllib.parse import urlencode

import msgspec

from ticdc_spark.operate.page.spark_line import drawn
from ticdc_spark.operate.page.view import (
    Cell,
    Chart,
    Code,
    Fact,
    Facts,
    Grid,
    Headline,
    Listing,
    Part,
    Query,
    Section,
    Step,
    View,
)

_MARKS = {"good": "●", "warn": "▲", "bad": "■", "quiet": "○", "": ""}
"""Shown beside a colour, for people who cannot see colours."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""The policy of a page in a file."""


def whole(view: View, style: str = "") -> str:
    """The whole page. ``style``: the style sheet of a page in a file; ``""``: a server provides style and script."""
    links = (
        f"<style>{style}</style>"
        if style
        else '<link rel="stylesheet" href="page.css"><script src="page.js" defer></script>'
    )
    policy = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">' if style else ""
    body = "\n".join(_section(section, is_file=bool(style)) for section in view.sections)
    contents = "".join(f'<a href="#{one.name}">{escape(one.title)}</a>' for one in view.sections)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{policy}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">'
        f"<title>{escape(title(view))}</title>{links}</head>\n"
        f'<body><a class="skip" href="#tables">Skip to the tables</a><header id="top">'
        f'<div class="bar"><h1><span class="kind">{view.kind}</span> {escape(view.name)}</h1>'
        f'<span class="at" data-part="at">{escape(view.at)}</span><span class="live" id="live" hidden></span></div>'
        f'<div data-part="headline">{headline(view.headline)}</div></header>\n'
        f'<nav aria-label="Sections">{contents}</nav>\n'
        f"<main>{body}</main></body></html>\n"
    )


def parts(view: View) -> dict[str, str]:
    """The changing parts of a page, by name; the script puts them into the page."""
    found = {"at": escape(view.at), "headline": headline(view.headline)}
    for section in view.sections:
        found[section.name] = "".join(_part(part) for part in section.parts)
    return found


def title(view: View) -> str:
    """The title of the window."""
    mark = _MARKS[view.headline.tone]
    return f"{mark} {view.name}: {view.headline.state}".strip()


def headline(head: Headline) -> str:
    """The state, its reason, and the next steps."""
    since = f'<span class="since">{escape(head.since)}</span>' if head.since else ""
    steps = "".join(f"<li>{_step(step)}</li>" for step in head.steps)
    return (
        f'<p class="state {head.tone}" role="status"><b>{_mark(head.tone)}{escape(head.state)}</b> '
        f'<span class="reason">{escape(head.reason)}</span>{since}</p>' + (f"<ol>{steps}</ol>" if steps else "")
    )


def _step(step: Step) -> str:
    text = escape(step.text)
    return f"{text}{': ' if step.text and step.command else ''}{_command(step.command)}"


def _command(command: str) -> str:
    return f'<code class="command" data-copy>{escape(command)}</code>' if command else ""


def _mark(tone: str) -> str:
    return f'<span class="mark" aria-hidden="true">{_MARKS[tone]}</span> ' if tone else ""


def _section(section: Section, *, is_file: bool) -> str:
    body = "".join(_part(part) for part in section.parts)
    listings = () if is_file else (part for part in section.parts if isinstance(part, Listing))
    form = "".join(map(_form, listings))
    inside = f'{form}<div data-part="{section.name}">{body}</div>'
    head = f'<h2 tabindex="-1">{escape(section.title)}</h2>'
    if section.is_folded:
        inside = f"<details><summary>{head}</summary>{inside}</details>"
        head = ""
    return f'<section id="{section.name}">{head}{inside}</section>'


def _part(part: Part) -> str:
    match part:
        case Facts():
            rows = "".join(_fact(row) for row in part.rows if row.text)
            return f'<dl class="{part.form}">{rows}</dl>' if rows else ""
        case Grid():
            return _grid(part)
        case Chart():
            return drawn(part)
        case Listing():
            return _listing(part)
        case Code():
            return f"<p>{escape(part.text)}: {_command(part.command)}</p>"


def _fact(fact: Fact) -> str:
    more = f' <span class="more">{escape(fact.more)}</span>' if fact.more else ""
    shown = (
        f'<span class="{fact.tone}">{_mark(fact.tone)}{escape(fact.text)}</span>' if fact.tone else escape(fact.text)
    )
    return f"<div><dt>{escape(fact.name)}</dt><dd>{shown}{more}</dd></div>"


def _grid(grid: Grid) -> str:
    if not grid.rows:
        return f'<p class="empty">{escape(grid.empty)}</p>'
    heads = "".join(f'<th scope="col" class="{head.form}">{escape(head.title)}</th>' for head in grid.heads)
    rows = "".join(f"<tr>{_cells(grid, row)}</tr>" for row in grid.rows)
    note = f'<p class="empty">{escape(grid.note)}</p>' if grid.note else ""
    # A wide grid scrolls by itself, also with the keyboard.
    return (
        f'<div class="grid" tabindex="0" role="region" aria-label="{escape(grid.heads[0].title)}">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>{note}"
    )


def _cells(grid: Grid, row: tuple[Cell | str, ...]) -> str:
    return "".join(
        _cell(Cell(cell) if isinstance(cell, str) else cell, head.form)
        for head, cell in zip(grid.heads, row, strict=True)
    )


def _cell(cell: Cell, form: str) -> str:
    of = f' class="{form}"' if form else ""
    shown = (
        f'<span class="{cell.tone}">{_mark(cell.tone)}{escape(cell.text)}</span>' if cell.tone else escape(cell.text)
    )
    more = f'<span class="more">{escape(cell.more)}</span>' if cell.more else ""
    return f"<td{of}>{shown}{more}</td>"


def _form(listing: Listing) -> str:
    query = listing.query
    choices = "".join(
        f"<option{' selected' if state == query.state else ''}>{escape(state)}</option>" for state in listing.choices
    )
    states = f'<label>State <select name="state"><option value="">all</option>{choices}</select></label> '
    return (
        '<form role="search" method="get" action="#tables" data-listing>'
        f'<label>Search <input type="search" name="search" value="{escape(query.search)}" '
        'autocomplete="off" spellcheck="false" placeholder="part of a name" aria-keyshortcuts="/"></label> '
        f"{states if listing.choices else ''}"
        '<button type="submit">Show</button></form>'
    )


def _listing(listing: Listing) -> str:
    query, shown = listing.query, len(listing.grid.rows)
    first = query.offset + 1 if shown else 0
    said = f"{first:,} to {query.offset + shown:,} of {listing.found:,}" if shown else f"0 of {listing.found:,}"
    pages = ""
    if query.offset > 0:
        pages += _page("Previous", "prev", query, max(0, query.offset - query.limit))
    if query.offset + shown < listing.found:
        pages += _page("Next", "next", query, query.offset + query.limit)
    counts = f'<span class="counts">{escape(listing.counts)}</span>' if listing.counts else ""
    return f'{_grid(listing.grid)}<p class="pages"><span>{said}</span>{pages}{counts}</p>'


def _page(text: str, rel: str, query: Query, offset: int) -> str:
    plain = msgspec.structs.replace(query, offset=offset)
    asked = {name: value for name, value in msgspec.structs.asdict(plain).items() if value}
    return f' <a rel="{rel}" data-offset="{offset}" href="?{escape(urlencode(asked))}#tables">{text}</a>'
