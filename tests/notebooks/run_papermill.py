"""Run notebooks with papermill, in place: `python -m tests.notebooks.run_papermill FILE...` prints what each took.

A line of JSON for each: its name, the seconds, and the most bytes that its kernel, or one before it, had in memory.
"""

import json
import resource
import sys
import time
from pathlib import Path

import papermill


def main(files: list[str]) -> None:
    for file in files:
        began = time.monotonic()
        papermill.execute_notebook(
            file, file, progress_bar=False, execution_timeout=120, kernel_name="python3", cwd=str(Path(file).parent)
        )
        seconds = time.monotonic() - began
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024  # Linux counts it in KiB
        print(json.dumps({"name": Path(file).stem, "seconds": seconds, "memory": most}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
