"""A value over time as a small SVG. Its numbers are beside it as text, for people who cannot see the line."""

from html import escape

from ticdc_spark.config.durations import duration
from ticdc_spark.operate.page.view import Chart

_WIDTH, _HEIGHT = 600, 64


def drawn(chart: Chart) -> str:
    """A chart as HTML; a sentence if there is no line yet."""
    title = escape(chart.title)
    if len(chart.points) < 2 or chart.points[-1][0] <= chart.points[0][0]:
        return f'<p class="empty">{title}: the line begins with the second batch that this process sees</p>'
    values = [value for _, value in chart.points]
    (begin, _), (end, last) = chart.points[0], chart.points[-1]
    top = max(values) or 1.0
    at = [
        f"{(when - begin) / (end - begin) * _WIDTH:.1f},{_HEIGHT - value / top * (_HEIGHT - 4):.1f}"
        for when, value in chart.points
    ]
    said = f"now {_said(last, chart)}, highest {_said(max(values), chart)}, lowest {_said(min(values), chart)}"
    over = f"over {duration(end - begin)}"
    return (
        f'<figure><figcaption>{title} <span class="more">{said}, {over}</span></figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{title}: {said}, {over}">'
        f'<polygon class="area" points="0,{_HEIGHT} {" ".join(at)} {_WIDTH},{_HEIGHT}"/>'
        f'<polyline class="line" points="{" ".join(at)}"/></svg></figure>'
    )


def _said(value: float, chart: Chart) -> str:
    if chart.unit == "seconds":
        return duration(value)
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"
