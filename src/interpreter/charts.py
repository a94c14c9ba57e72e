"""The content of matplotlib's figures as the published clients describe charts."""

import datetime
import itertools
import math
import numbers

# Elements and points beyond these are left out: a picture is sent as well. The cell waits meanwhile.
MAX_ELEMENTS = 1_000
MAX_POINTS = 50_000
# Of a figure, an equal part for each element.
MAX_FIGURE_POINTS = 200_000
MAX_AXES = 64
SCALES = ("linear", "log", "symlog", "logit", "function", "functionlog", "asinh")


def describe_figure(figure):
    """One chart, or a `superchart` of several; None for a figure without axes."""
    charts = [describe_axes(axes) for axes in figure.axes[:MAX_AXES] if axes.get_visible()]
    charts = [chart for chart in charts if chart is not None]
    if not charts:
        return None
    if len(charts) == 1:
        return charts[0]
    title = figure._suptitle.get_text() if getattr(figure, "_suptitle", None) else ""
    return {"type": "superchart", "title": title, "elements": charts}


def describe_axes(axes):
    for kind, find in KINDS:
        elements = find(axes)
        if elements:
            facts = {"type": kind, "title": axes.get_title(), "elements": elements[:MAX_ELEMENTS]}
            if kind != "pie":
                facts.update(labels_of(axes))
            if kind in ("line", "scatter"):
                facts.update(axis_facts(axes, "x"))
                facts.update(axis_facts(axes, "y"))
            return facts
    if getattr(axes, "_colorbar", None) is not None:
        return None
    return {"type": "unknown", "title": axes.get_title(), "elements": [], **labels_of(axes)}


def labels_of(axes):
    x_label, y_label = axes.get_xlabel(), axes.get_ylabel()
    return {
        "x_label": x_label or None,
        "y_label": y_label or None,
        "x_unit": unit_of(x_label),
        "y_unit": unit_of(y_label),
    }


def unit_of(label):
    """What stands in the brackets at the end of a label."""
    text = label.strip()
    for opening, closing in ("()", "[]"):
        if text.endswith(closing) and opening in text:
            return text[text.rindex(opening) + 1 : -1] or None
    return None


def axis_facts(axes, side):
    axis = getattr(axes, f"{side}axis")
    ticks = axis.get_ticklocs()[:MAX_ELEMENTS]
    low, high = sorted(axis.get_view_interval())
    ticks = [tick for tick in ticks if low <= tick <= high]
    texts = axis.get_major_formatter().format_ticks(ticks)
    return {
        f"{side}_scale": scale_of(axis),
        f"{side}_ticks": [coordinate(axis, tick) for tick in ticks],
        f"{side}_tick_labels": [str(text) for text in texts],
    }


def scale_of(axis):
    from matplotlib.category import StrCategoryConverter
    from matplotlib.dates import DateConverter, _SwitchableDateConverter

    converter = getattr(axis, "get_converter", lambda: axis.converter)()
    if isinstance(converter, (DateConverter, _SwitchableDateConverter)):
        return "datetime"
    if "Date" in type(converter).__name__ or "Period" in type(converter).__name__:
        return "datetime"
    if isinstance(converter, StrCategoryConverter):
        return "categorical"
    name = axis.get_scale()
    return name if name in SCALES else "linear"


def coordinate(axis, value):
    """A place on an axis: a moment as text, the name of a category, or the number."""
    return coordinates(axis)(value)


def coordinates(axis):
    """What tells places on an axis. What kind of axis it is takes longer to find than a place to tell."""
    scale = scale_of(axis)
    if scale == "datetime":
        return moment
    if scale == "categorical" and getattr(axis, "units", None) is not None:
        names = {index: name for name, index in axis.units._mapping.items()}
        return lambda value: str(names[value]) if value in names else to_json(value)
    return to_json


def moment(value):
    from matplotlib import dates

    if not isinstance(value, (int, float)):
        return to_json(value)
    try:
        return dates.num2date(value).replace(tzinfo=None).isoformat()
    except (ValueError, OverflowError):
        return to_json(value)


def label_of(artist):
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def points(axes, xs, ys):
    import numpy as np

    x_of, y_of = coordinates(axes.xaxis), coordinates(axes.yaxis)
    places = []
    for x, y in zip(*(values[: points_of_each(axes.figure)] for values in (xs, ys))):
        if np.ma.is_masked(x) or np.ma.is_masked(y):
            continue
        places.append([x_of(plain(x)), y_of(plain(y))])
    return places


def points_of_each(figure):
    """How many points of each element are told."""
    elements = sum(len(axes.lines) + len(axes.collections) for axes in figure.axes)
    return min(MAX_POINTS, MAX_FIGURE_POINTS // max(elements, 1))


def plain(value):
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value


def lines(axes):
    found = []
    for index, line in enumerate(axes.get_lines()[:MAX_ELEMENTS]):
        xs, ys = line.get_xdata(orig=False), line.get_ydata(orig=False)
        label = label_of(line) or f"Line {index}"
        found.append({"label": label, "points": points(axes, xs, ys)})
    return found


def scatters(axes):
    from matplotlib.collections import PathCollection

    found = []
    for collection in axes.collections:
        if isinstance(collection, PathCollection) and len(found) < MAX_ELEMENTS:
            offsets = collection.get_offsets()
            label = label_of(collection) or f"Scatter {len(found)}"
            found.append({"label": label, "points": points(axes, offsets[:, 0], offsets[:, 1])})
    return found


def bars(axes):
    from matplotlib.container import BarContainer

    found = []
    for index, group in enumerate(c for c in axes.containers if isinstance(c, BarContainer)):
        is_flat = getattr(group, "orientation", "vertical") == "horizontal"
        text_of = tick_texts(axes.yaxis if is_flat else axes.xaxis)
        name = label_of(group) or f"Group {index}"
        for bar in itertools.islice(group.patches, MAX_ELEMENTS - len(found)):
            start, size = (bar.get_y(), bar.get_height()) if is_flat else (bar.get_x(), bar.get_width())
            length = bar.get_width() if is_flat else bar.get_height()
            label = text_of(start + size / 2)
            found.append({"label": label, "group": name, "value": to_json(plain(length))})
    return found


def tick_texts(axis):
    """Tells what stands at a place of an axis: its category, its tick, or its number."""
    place_of = coordinates(axis)
    ticks = axis.get_ticklocs()[:MAX_ELEMENTS]
    texts = axis.get_major_formatter().format_ticks(ticks)

    def text_of(value):
        known = place_of(round(value, 9))
        if isinstance(known, str):
            return known
        for tick, text in zip(ticks, texts):
            if math.isclose(tick, value, abs_tol=1e-9) and str(text):
                return str(text)
        return f"{value:g}"

    return text_of


def wedges(axes):
    from matplotlib.patches import Wedge

    found = []
    names = [text.get_text() for text in axes.texts]
    for index, wedge in enumerate(p for p in axes.patches if isinstance(p, Wedge)):
        label = label_of(wedge) or (names[index] if index < len(names) else "")
        angle = abs(wedge.theta2 - wedge.theta1)
        found.append({"label": label, "angle": to_json(plain(angle)), "radius": to_json(plain(wedge.r))})
    return found


def boxes(axes):
    """Of a box plot only lines and patches are left in the axes: five lines for each box in order."""
    from matplotlib.patches import PathPatch

    # By matplotlib: box, two whiskers, two caps, median and perhaps fliers; a filled box is a patch.
    all_lines = list(axes.get_lines())
    patches = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    found = []
    while all_lines or patches:
        group = take_box(all_lines, patches)
        if group is None:
            return []
        found.append(group)
    text_of = tick_texts(axes.xaxis)
    for index, box in enumerate(found):
        box["label"] = text_of(box.pop("at")) or str(index + 1)
    return found


def take_box(rest, patches):
    """The next box with its lines, which are taken away; None where they are no box plot's."""
    if len(rest) > 5 and len(rest[0].get_xdata()) == 5:
        ys = rest.pop(0).get_ydata()
    elif patches and len(rest) >= 5:
        ys = patches.pop(0).get_path().vertices[:5, 1]
    else:
        return None
    shapes = [len(line.get_xdata()) for line in rest[:5]]
    if shapes != [2, 2, 2, 2, 2]:
        return None
    low, high, _, _, median = (line.get_ydata() for line in rest[:5])
    middle = sum(rest[4].get_xdata()) / 2
    del rest[:5]
    outliers = []
    # Fliers are a line of single markers, which a box without any has too.
    if rest and rest[0].get_linestyle() in ("None", "none", "") and rest[0].get_marker() != "None":
        outliers = [to_json(plain(value)) for value in rest.pop(0).get_ydata()[:MAX_POINTS]]
    numbers = {
        "min": min(low),
        "first_quartile": min(ys),
        "median": median[0],
        "third_quartile": max(ys),
        "max": max(high),
    }
    values = {name: to_json(plain(value)) for name, value in numbers.items()}
    return {"label": "", "at": middle, **values, "outliers": outliers}


def to_json(value):
    """A number, text, truth or nothing; anything else as text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        # The missing moment of pandas is one of these, and has no text of the format.
        return value.isoformat() if value == value else None
    return str(value)


KINDS = (
    ("pie", wedges),
    ("box_and_whisker", boxes),
    ("bar", bars),
    ("scatter", scatters),
    ("line", lines),
)
