"""The stages. They run the code beside them, also in the copy in which DVC runs an experiment."""

import os
import sys
from pathlib import Path

# An editable install leads to the project's own src/, whatever copy a stage was started in.
_SOURCE = str(Path(__file__).parents[1] / "src")
sys.path.insert(0, _SOURCE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_SOURCE, os.environ.get("PYTHONPATH"))))

from signloom.portable import set_numpy_path  # noqa: E402

set_numpy_path()
