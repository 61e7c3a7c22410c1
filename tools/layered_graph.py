"""Draw a small graph without cycles as an SVG: columns of boxes, and arrows that all point to the right."""

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from itertools import pairwise

#: A box by its name; or the ends of an arrow, and the height at which it passes through a column.
Node = str | tuple[str, str, int]
#: The nodes that an arrow passes, its two boxes included.
Way = list[Node]

BOX_WIDTH, BOX_HEIGHT, GAP_X, GAP_Y, MARGIN = 74, 28, 24, 24, 12
STYLE = """<style>
rect { fill: #eef3fa; stroke: #4a6fa5 } .page { fill: #fff; stroke: none }
text { font: 13px sans-serif; fill: #1b2a41; text-anchor: middle }
path { fill: none; stroke: #4a6fa5; stroke-width: 1.3; marker-end: url(#head) }
</style>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L8 4L0 8z" style="fill: #4a6fa5; stroke: none; marker-end: none"/></marker>"""


def draw(graph: Mapping[str, set[str]], title: str) -> str:
    """Draw a graph, given the names that each name points to."""
    heights = heights_of(graph)
    ways = [way(name, other, heights) for name in sorted(graph) for other in sorted(graph[name])]
    columns = untangled(columns_of(heights, ways), ways)
    rows = max(len(column) for column in columns)
    width = 2 * MARGIN + len(columns) * (BOX_WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + rows * (BOX_HEIGHT + GAP_Y) - GAP_Y
    at = {
        node: place(x, y + (rows - len(column)) / 2)
        for x, column in enumerate(columns)
        for y, node in enumerate(column)
    }
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
        f"<title>{escape(title)}</title>",
        STYLE,
        f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
        *(arrow([at[node] for node in way]) for way in ways),
        *(box(name, *at[name]) for name in heights),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def heights_of(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """How many arrows the longest way down from each name has."""
    heights: dict[str, int] = {}

    def height(name: str) -> int:
        if name not in heights:
            heights[name] = 1 + max((height(other) for other in graph.get(name, ())), default=-1)
        return heights[name]

    return {name: height(name) for name in sorted({*graph, *(other for others in graph.values() for other in others)})}


def way(name: str, other: str, heights: Mapping[str, int]) -> Way:
    """The arrow from a name to another one, with a node in each column between them."""
    return [name, *[(name, other, height) for height in range(heights[name] - 1, heights[other], -1)], other]


def columns_of(heights: Mapping[str, int], ways: Sequence[Way]) -> list[list[Node]]:
    """Each node in its column, the highest first."""
    columns: list[list[Node]] = [[] for _ in range(1 + max(heights.values()))]
    for name, height in heights.items():
        columns[-1 - height].append(name)
    for node in (node for way in ways for node in way if isinstance(node, tuple)):
        columns[-1 - node[2]].append(node)
    return columns


def untangled(columns: list[list[Node]], ways: Sequence[Way]) -> list[list[Node]]:
    """Sort each column by where the neighbours of its nodes stand, so that few arrows cross."""
    neighbors: dict[Node, set[Node]] = {}
    for one, other in (pair for way in ways for pair in pairwise(way)):
        neighbors.setdefault(one, set()).add(other)
        neighbors.setdefault(other, set()).add(one)
    for _ in range(4):
        for direction in (1, -1):
            for fixed, column in pairwise(columns[::direction]):
                heights = {node: (index + 0.5) / len(fixed) for index, node in enumerate(fixed)}
                column.sort(key=partial(mean_height, neighbors=neighbors, heights=heights))
    return columns


def mean_height(node: Node, neighbors: Mapping[Node, set[Node]], heights: Mapping[Node, float]) -> float:
    """The mean over the neighbours that have a height; the middle without any."""
    found = [heights[other] for other in neighbors.get(node, ()) if other in heights]
    return sum(found) / len(found) if found else 0.5


def place(column: float, row: float) -> tuple[float, float]:
    """The upper left corner of a box."""
    return MARGIN + column * (BOX_WIDTH + GAP_X), MARGIN + row * (BOX_HEIGHT + GAP_Y)


def box(name: str, x: float, y: float) -> str:
    """A box with its name."""
    text = f'<text x="{x + BOX_WIDTH / 2:g}" y="{y + BOX_HEIGHT / 2 + 4.5:g}">{escape(name)}</text>'
    return f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>{text}'


def arrow(corners: Sequence[tuple[float, float]]) -> str:
    """A curve from the first box to the last, straight through the places between."""
    centers = [(x, y + BOX_HEIGHT / 2) for x, y in corners]
    path = f"M{centers[0][0] + BOX_WIDTH:g} {centers[0][1]:g}"
    for (x, y), (next_x, next_y) in pairwise(centers):
        left, middle = x + BOX_WIDTH, (x + BOX_WIDTH + next_x) / 2
        path += f"L{left:g} {y:g}C{middle:g} {y:g} {middle:g} {next_y:g} {next_x:g} {next_y:g}"
    return f'<path d="{path}"/>'
