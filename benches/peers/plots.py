#!/usr/bin/env python3
"""Plots of docs/BENCHMARKS.md: one SVG of bars for a column of some of its tables, in docs/pictures.

    benches/peers/plots.py

`make bench` calls it when it has written the page. The figures are those of the tables, so a plot says what its table says.
"""

import html
import math
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "BENCHMARKS.md"
PICTURES = ROOT / "docs" / "pictures"

# The section, the column, the file, what it says, which servers (all when empty), and whether the scale is logarithmic.
PLOTS = [
    ("1 000 watchers, 100 gifts/s", "CPU-s per million", "bench-paced.svg", "CPU seconds for a million deliveries; less is better", "", False),
    ("Full speed", "deliveries/s", "bench-full.svg", "Deliveries per second with 16 gifts in flight; more is better", "16 in flight", False),
    ("Idle watchers", "bytes per idle watcher", "bench-idle.svg", "Bytes of memory for an idle watcher, logarithmic; less is better", "", True),
    ("A connect storm", "all there after ms", "bench-storm.svg", "Milliseconds until all 16 000 are back (Mosquitto, ws, Socket.IO: 8 000), logarithmic", "", True),
]

WIDTH, LABEL, BAR, GAP, TOP = 820, 250, 22, 8, 46


def table(text, section):
    """The heads of a section's table, and its rows."""
    part = text.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("|")]
    return rows[0], rows[2:]


def number(text):
    """A figure of the page; none for a dash."""
    plain = re.sub(r"[ \u00a0\u202f]", "", text)
    return float(plain) if re.fullmatch(r"-?\d+(\.\d+)?", plain) else None


def name(server):
    """The server without its version, with what makes a row another one's."""
    words = re.sub(r" v?\d+\.\d+[\w.-]*", "", server)
    return re.sub(r",? 16 in flight,?", "", words).replace(", flush_ms", " flush_ms").strip()


def plot(text, section, column, title, which, is_log):
    heads, rows = table(text, section)
    at = heads.index(column)
    bars = [(name(row[0]), number(row[at]), row[at]) for row in rows if which in row[0]]
    bars = [bar for bar in bars if bar[1] is not None and bar[1] > 0]
    scale = (lambda value: math.log10(value)) if is_log else (lambda value: value)
    low = math.floor(min(scale(value) for _, value, _ in bars)) - 0.2 if is_log else 0
    high = max(scale(value) for _, value, _ in bars)
    room, height = WIDTH - LABEL - 110, TOP + len(bars) * (BAR + GAP) + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}">',
        "<style>text{font:14px system-ui,sans-serif;fill:#1d2330}.t{font-weight:600;font-size:16px}.n{fill:#5b6475}"
        ".o{fill:#5b3fd6}.p{fill:#b9c0cf}.b{fill:#fff}"
        "@media(prefers-color-scheme:dark){text{fill:#e6e9f0}.n{fill:#a0a9ba}.o{fill:#a48fff}.p{fill:#4a5364}.b{fill:#14181f}}</style>",
        f'<rect class="b" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="t" x="16" y="28">{html.escape(title)}</text>',
    ]
    for n, (server, value, shown) in enumerate(bars):
        y, width = TOP + n * (BAR + GAP), max(room * (scale(value) - low) / (high - low), 2)
        kind = "o" if server.startswith("Tipcast") else "p"
        out += [
            f'<text x="{LABEL - 10}" y="{y + 16}" text-anchor="end">{html.escape(server)}</text>',
            f'<rect class="{kind}" x="{LABEL}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"/>',
            f'<text class="n" x="{LABEL + width + 8:.1f}" y="{y + 16}">{html.escape(shown)}</text>',
        ]
    return "\n".join(out + ["</svg>", ""])


def draw():
    """Writes all plots, and has the page show each above its table."""
    text = PAGE.read_text()
    PICTURES.mkdir(exist_ok=True)
    for section, column, file, title, which, is_log in PLOTS:
        (PICTURES / file).write_text(plot(text, section, column, title, which, is_log))
        image, head = f"![{title}](pictures/{file})", f"\n## {section}\n"
        if image not in text:
            before, behind = text.split(head, 1)
            about, rest = behind.split("\n| ", 1)
            text = f"{before}{head}{about.rstrip()}\n\n{image}\n\n| {rest}"
    PAGE.write_text(text)


if __name__ == "__main__":
    draw()
