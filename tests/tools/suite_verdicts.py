"""Put what the runner of the suite found into what deletekit knows: `python -m tests.tools.suite_verdicts FILE...`.

A FILE is what `python conformance/run.py --engine ... --json FILE` writes. An engine's verdicts replace those on the
same version of it, case by case. The cases that an engine reads right are those that its entry does not name.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from conformance.run import load_suite
from deletekit.reader_verdicts.known_verdicts import VERDICTS_FILE, Verdict, case_name, verified_verdicts

Found = dict[tuple[str, str], dict[tuple[str, str], tuple[str, str | None, str | None]]]


def document(found: Found, dates: dict[tuple[str, str], str]) -> str:
    """Return the file, with what one engine does with some cases on one line."""
    suite = [(case.name, ref) for case in load_suite() for ref in case.refs]
    engines = []
    for (engine, version), results in sorted(found.items()):
        about: dict[str, Any] = {"engine": engine, "version": version, "date": dates[engine, version]}
        for verdict in ("right", "refuses", "WRONG", "crashes"):
            by_why: dict[str, list[str]] = {}
            for case in suite:
                said, words, breaks = results.get(case, ("", None, None))
                why = breaks if verdict == "WRONG" else words
                if said == verdict and why is not None:
                    by_why.setdefault(why, []).append(case_name(*case))
            about[verdict] = by_why
        if missing := [case_name(*case) for case in suite if case not in results]:
            about["not asked"] = missing
        engines.append(about)
    cases = json.dumps(sorted({name for name, _ in suite}))
    return f'{{"cases": {cases},\n"engines": [\n' + ",\n".join(map(_lines, engines)) + "\n]}\n"


def _lines(about: dict[str, Any]) -> str:
    def told(name: str, value: Any) -> str:
        if not isinstance(value, dict):
            return f"{json.dumps(name)}: {json.dumps(value)}"
        parts = [f"  {json.dumps(why)}: {json.dumps(names)}" for why, names in sorted(value.items())]
        return f"{json.dumps(name)}: {{\n" + ",\n".join(parts) + "}"

    return "{" + ",\n ".join(told(name, value) for name, value in about.items() if value) + "}"


def collected(results: Iterable[Any], known: Iterable[Verdict], today: str) -> str:
    """Return the file with some results of the runner beside, or in the place of, the verdicts that are known."""
    found: Found = {}
    dates: dict[tuple[str, str], str] = {}
    for v in known:
        dates[v.engine, v.version] = v.date or today
        found.setdefault((v.engine, v.version), {})[v.case or "", v.ref] = (v.verdict, v.words, v.breaks)
    for result in results:
        engine = result["engine"], result["version"]
        dates[engine] = today
        of_case = (result["verdict"], result["words"], result["breaks"])
        found.setdefault(engine, {})[result["case"], result["ref"]] = of_case
    return document(found, dates)


def main(*files: str) -> None:
    """Read the results of runs, and write the file."""
    documents = [json.loads(Path(file).read_bytes()) for file in files]
    results = [result for document in documents for result in document["results"]]
    today = max((document["date"] for document in documents), default="")
    VERDICTS_FILE.write_text(collected(results, verified_verdicts(), today), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
