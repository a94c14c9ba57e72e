"""Forms of results that Jupyter lacks: the values of a data frame, the content of a chart."""

from charts import describe_figure, to_json

DATA_TYPE = "application/vnd.e2b.data.v1+json"
CHART_TYPE = "application/vnd.e2b.chart.v1+json"
# Beyond this a data frame is told by its text and its table alone.
MAX_DATA_VALUES = 1_000_000
MAX_DATA_CHARACTERS = 16 * 1024 * 1024


def register(formatter):
    """Adds the forms to the display formatter of IPython. Nothing is imported for it."""
    from IPython.core.formatters import BaseFormatter
    from traitlets import ObjectName, Unicode

    class DataFormatter(BaseFormatter):
        format_type = Unicode(DATA_TYPE)
        print_method = ObjectName("_repr_e2b_data_")
        _return_type = dict

    class ChartFormatter(BaseFormatter):
        format_type = Unicode(CHART_TYPE)
        print_method = ObjectName("_repr_e2b_chart_")
        _return_type = dict

        def pop(self, typ, default=None):
            """Kept: matplotlib's inline backend takes figures from every formatter at its start."""
            return default

    data, chart = DataFormatter(parent=formatter), ChartFormatter(parent=formatter)
    data.for_type_by_name("pandas.core.frame", "DataFrame", frame_values)
    chart.for_type_by_name("matplotlib.figure", "Figure", describe_figure)
    formatter.formatters[DATA_TYPE] = data
    formatter.formatters[CHART_TYPE] = chart
    formatter.active_types = [*formatter.active_types, DATA_TYPE, CHART_TYPE]


def frame_values(frame):
    """The columns of a data frame by name, as values of JSON."""
    if frame.size > MAX_DATA_VALUES:
        return None
    columns, left = {}, MAX_DATA_CHARACTERS
    for index, name in enumerate(frame.columns):
        column = columns[str(name)] = []
        for value in frame.iloc[:, index].tolist():
            column.append(to_json(value))
            left -= len(column[-1]) if isinstance(column[-1], str) else 0
            if left < 0:
                return None
    return columns
