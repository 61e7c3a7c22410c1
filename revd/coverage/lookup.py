"""Finding cells by MODULE:NAME."""

import re
from importlib import import_module

from revd.coverage.grid import CellFunction, Grid
from revd.names import unknown_name

_IMPORT_PATH = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")


def import_cells(path: str) -> Grid | CellFunction:
    """The grid or function that MODULE:NAME names; a ValueError says why there is none."""
    match = _IMPORT_PATH.fullmatch(path)
    if match is None:
        raise ValueError(f"coverage {path!r} is not MODULE:NAME, as in mypkg.cells:rooms")
    module, name = match.groups()
    try:
        imported = import_module(module)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        raise ValueError(f"coverage {path!r}: the module {module!r} cannot be imported: {reason}") from error
    found = getattr(imported, name, None)
    if found is None:
        usable = [key for key, value in vars(imported).items() if _is_usable(value) and not key.startswith("_")]
        raise ValueError(f"coverage {path!r}: {unknown_name(f'name in {module!r}', name, usable)}")
    if not _is_usable(found):
        raise ValueError(f"coverage {path!r} must be a Grid or a function, got {found!r}")
    usable_cells: Grid | CellFunction = found
    return usable_cells


def _is_usable(value: object) -> bool:
    return isinstance(value, Grid) or (callable(value) and not isinstance(value, type))
