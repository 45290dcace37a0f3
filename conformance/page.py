"""Verdicts as one HTML page: how often each engine is right, a matrix of cases and engines, and their words."""

from collections.abc import Iterable, Mapping
from typing import Any

from conformance.runner import KINDS, EngineRun
from conformance.suite import Case
from conformance.verdicts import case_name, engines_of, matrix, said, spoken, summary
from deletekit.html_table import html_table, safe_html

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Who reads deletes right</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 80rem; padding: 0 1rem }
table { border-collapse: collapse } th, td { border: 1px solid; padding: .2rem .5rem; vertical-align: top }
</style></head><body>
<h1>Who reads deletes right</h1>
"""


def verdicts_page(document: Mapping[str, Any], cases: Iterable[Case], runs: Iterable[EngineRun] = ()) -> str:
    """Return the page. Every text in it is escaped: an engine's words may hold anything.

    Parameters
    ----------
    document: as `document_of` makes it.
    cases: what the verdicts are about.
    runs: those of engines that could not be asked are named with the reason.
    """
    results = document["results"]
    engines = [f"{name} {version}" for name, version in engines_of(results)]
    failed = [r for r in results if r["verdict"] in ("WRONG", "crashes")]
    shown = [[case_name(r["case"], r["ref"]), f"{r['engine']} {r['version']}", said(r), r["words"]] for r in failed]
    words = spoken(r for r in results if r not in failed)
    missing = [[run.engine, run.unavailable] for run in runs if run.unavailable is not None]
    about = [[case.name, case.rule, case.sentence, case.spec, case.writer] for case in cases]
    tables = [
        (("engine", "version", *KINDS), summary(results), "How many refs of cases each engine reads"),
        (("engine", "why"), missing, "Engines that could not be asked"),
        (("case", *engines), matrix(results), "Verdict for each case"),
        (("case", "engine", "verdict", "words"), shown, "What is wrong"),
        (("engine", "verdict", "refs", "words"), words, "What engines said"),
        (("case", "rule", "what it tests", "section of the specification", "writer"), about, "Cases"),
    ]
    dated = f"<p>{safe_html(document['date'])}, on {safe_html(document['machine'])}.</p>"
    parts = [html_table(columns, rows, caption=caption) for columns, rows, caption in tables if rows]
    return "\n".join([_HEAD + dated, *parts, "</body></html>\n"])
