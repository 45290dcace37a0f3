"""Write what is known of engines: `python -m tests.tools.conformance_page` into docs/conformance.md, and for the site.

docs/conformance.md has how often each engine is right, and who breaks which rule. The page of the site has each case,
to be filtered by rule and engine, an anchor for each rule and table, and for each rule that an engine breaks one case
drawn.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from conformance.run import HERE, KINDS, OTHER_ROWS, Case, counted, load_suite
from deletekit.course.drawings.sequence_axis import sequence_axis
from deletekit.reader_verdicts.known_verdicts import Verdict, case_name, verified_verdicts
from tests.tools.lessons import ROOT

PAGE = ROOT / "docs" / "conformance.md"
BEGIN, END = "<!-- verdicts: written by `python -m tests.tools.conformance_page` -->", "<!-- end of verdicts -->"
SPEC = "https://iceberg.apache.org/spec/"
_LEAD = """\
What each engine does with each ref of each table of the [suite](conformance.md). Cite a table or a rule as
`#case-NAME` or `#rule-NAME` of this page, with the sum that the table has.
"""
_FILTER = """\
<p><label>rule <select id="suite-rule"><option value="">all</option>{rules}</select></label>
<label>an engine is <select id="suite-verdict"><option value="">anything</option>{kinds}</select></label>
<label>engine <select id="suite-engine"><option value="">any</option>{engines}</select></label>
<span id="suite-count" role="status"></span></p>
<script>
document.addEventListener("DOMContentLoaded", () => {{
  const pick = (name) => document.getElementById("suite-" + name);
  const show = () => {{
    let shown = 0;
    for (const row of document.querySelectorAll("tr[data-rule]")) {{
      const cells = [...row.querySelectorAll("td[data-engine]")];
      const asked = cells.filter((cell) => !pick("engine").value || cell.dataset.engine === pick("engine").value);
      const fits = (!pick("rule").value || row.dataset.rule === pick("rule").value)
        && (!pick("verdict").value || asked.some((cell) => cell.dataset.verdict === pick("verdict").value));
      row.hidden = !fits;
      shown += fits;
    }}
    pick("count").textContent = shown + " of " + document.querySelectorAll("tr[data-rule]").length + " refs of tables";
  }};
  for (const name of ["rule", "verdict", "engine"]) pick(name).addEventListener("change", show);
  show();
}});
</script>
"""


def conformance_page() -> str:
    """Return docs/conformance.md with the verdicts of today's files in it."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}\n\n{_summary()}\n{END}{rest.partition(END)[2]}"


def counts() -> dict[tuple[str, str], dict[str, int]]:
    """Return how many refs each version of each engine reads how: by `KINDS`."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for v in verified_verdicts():
        found.setdefault((v.engine, v.version), Counter())[v.verdict] += 1
    return {engine: {kind: of[kind] for kind in KINDS} for engine, of in found.items()}


def _summary() -> str:
    dates = {(v.engine, v.version): v.date for v in verified_verdicts()}
    rows = [[*engine, dates[engine], *number.values()] for engine, number in counts().items()]
    broken: dict[str, set[str]] = {}
    for v in verified_verdicts():
        if v.breaks:
            broken.setdefault(v.breaks, set()).add(v.engine)
    rules = _manifest()["rules"]
    breaches = [
        [f"`{rule}`", rules[rule]["breach"], ", ".join(sorted(broken[rule]))] for rule in rules if rule in broken
    ]
    breaches.append([OTHER_ROWS, "has rows of no decoy", ", ".join(sorted(broken.get(OTHER_ROWS, ())))])
    return "\n".join([
        "A row counts the refs of the tables.\n",
        _table(("engine", "version", "asked on", *KINDS), rows),
        "Who breaks which rule, at least once:\n",
        _table(("rule", "who breaks it", "engines"), breaches),
    ])  # fmt: skip


def _table(columns: Iterable[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of Markdown."""
    names = list(columns)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines) + "\n"


def _manifest() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((HERE / "manifest.json").read_bytes())
    return found


# --- the page of the site ---------------------------------------------------------------------------------------------


def write_cases_page(folder: Path) -> None:
    """Write the page of the site into the folder of the library's pages."""
    manifest, cases = _manifest(), load_suite()
    verdicts = {(v.engine, v.version, v.case, v.ref): v for v in verified_verdicts()}
    engines = list(counts())
    rules = [rule for rule in manifest["rules"] if any(rule == case.rule for case in cases)]
    options = [_options(rules), _options(KINDS), _options(name for name, _ in engines)]
    parts = [
        "# Cases of the conformance suite\n",
        _LEAD,
        _FILTER.format(rules=options[0], kinds=options[1], engines=options[2]),
        _matrix(cases, engines, verdicts),
        "## Rules\n",
        *(_rule(rule, manifest["rules"][rule], cases, list(verdicts.values())) for rule in manifest["rules"]),
        "## Tables\n",
        *map(_case, cases),
    ]
    (folder / "conformance_cases.md").write_text("\n".join(parts), encoding="utf-8")


def _options(values: Iterable[str]) -> str:
    return "".join(f"<option>{escape(value)}</option>" for value in sorted(set(values)))


def _matrix(cases: Sequence[Case], engines: Sequence[tuple[str, str]], verdicts: dict[Any, Verdict]) -> str:
    head = "".join(
        f'<th scope="col">{escape(name)}<br><small>{escape(number)}</small></th>' for name, number in engines
    )
    rows = []
    for case in cases:
        for ref in case.refs:
            cells = "".join(_cell(case, name, verdicts.get((name, number, case.name, ref))) for name, number in engines)
            name = f'<a href="#case-{case.name}">{escape(case_name(case.name, ref))}</a>'
            rule = f'<a href="#rule-{case.rule}">{case.rule}</a>'
            rows.append(f'<tr data-rule="{case.rule}"><th scope="row">{name}</th><td>{rule}</td>{cells}</tr>')
    return (
        '<div style="overflow-x: auto" tabindex="0" role="region" aria-label="Verdicts">'
        '<table class="docutils" style="font-size: .75rem; text-align: left">\n'
        f'<thead><tr><th scope="col">table</th><th scope="col">rule</th>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>\n"
    )


def _cell(case: Case, engine: str, verdict: Verdict | None) -> str:
    if verdict is None:
        return f'<td data-engine="{escape(engine)}" data-verdict=""></td>'
    said = verdict.verdict + (f": {verdict.breaks}" if verdict.breaks not in (None, case.rule) else "")
    text = f"<b>{escape(said)}</b>" if verdict.verdict in ("WRONG", "crashes") else escape(said)
    title = f' title="{escape(verdict.words)}"' if verdict.words else ""
    return f'<td data-engine="{escape(engine)}" data-verdict="{verdict.verdict}"{title}>{text}</td>'


def _rule(rule: str, about: dict[str, str], cases: Sequence[Case], verdicts: Sequence[Verdict]) -> str:
    section = about["section"]
    anchor = section.lower().replace(" ", "-")
    own = [case for case in cases if case.rule == rule]
    who = sorted({f"{v.engine} {v.version}" for v in verdicts if v.breaks == rule})
    lines = [
        f'<h3 id="rule-{rule}">{rule}</h3>',
        f'<p>Section <a href="{SPEC}#{anchor}">{section}</a>. Who breaks it {escape(about["breach"])}.',
        f"Broken by: {escape(', '.join(who)) or 'none of those that were asked'}. Tables: {_links(own)}</p>",
    ]
    shown = next(({"case": v.case, "ref": v.ref} for v in verdicts if v.breaks == rule), None)
    if shown is not None:
        case = next(case for case in cases if case.name == shown["case"])
        decoy = next(d for d in case.decoys if d["breaks"] == rule and d["ref"] == shown["ref"])
        lines += [f"<p>{_links([case])}: {escape(case.about['description'])}</p>", _drawing(case), _rows(case, decoy)]
    return "\n".join(line for line in lines if line) + "\n"


def _links(cases: Iterable[Case]) -> str:
    return ", ".join(f'<a href="#case-{case.name}">{case.name}</a>' for case in cases) or "none of its own"


def _drawing(case: Case) -> str:
    """Return which deletes apply to which data files; nothing for a damaged table, and for one without deletes."""
    deletes = {"equality-delete", "position-delete", "deletion-vector"}
    if case.is_damaged or not deletes & set(case.about["features"]):
        return ""
    return f"<p>{sequence_axis(case.folder / case.metadata).to_html()}</p>"


def _rows(case: Case, decoy: dict[str, str] | Any) -> str:
    """Return the rows that are right, and those that a reader has who breaks the rule."""
    expected, wrong = case.expected(decoy["ref"]), case.decoy(decoy)["rows"]
    columns = expected["columns"]
    both = counted(expected["rows"], columns) & counted(wrong, columns)
    names = "".join(f'<th scope="col">{escape(column["name"])}</th>' for column in columns)

    def listed(title: str, rows: Sequence[Any]) -> str:
        lines = []
        for row in rows:
            same = counted([row], columns).keys() <= both.keys()
            cells = "".join(f"<td>{escape(json.dumps(value, ensure_ascii=False))}</td>" for value in row)
            lines.append(f"<tr>{cells}<td>{'' if same else '<b>differs</b>'}</td></tr>")
        head = f'<caption style="text-align: left; white-space: nowrap">{title}</caption><tr>{names}<td></td></tr>'
        return f'<table class="docutils">{head}{"".join(lines)}</table>'

    right, broken = listed("right", expected["rows"]), listed(f"who breaks {decoy['breaks']}", wrong)
    label = f"Rows of {case.name} without {decoy['breaks']}"
    return f'<div style="overflow-x: auto" tabindex="0" role="region" aria-label="{label}">{right}{broken}</div>'


def _case(case: Case) -> str:
    about = case.about
    damaged = " The table is damaged: a reader is right that refuses it." if case.is_damaged else ""
    return (
        f'<h3 id="case-{case.name}">{case.name}</h3>\n'
        f'<p>{escape(about["description"])}{damaged} Rule <a href="#rule-{case.rule}">{case.rule}</a>. Version '
        f"{about['format-version']}; written by {escape(about['written-by'])}. Decoys: "
        f"{', '.join(d['breaks'] for d in case.decoys)}. SHA-256 <code>{about['sha256'][:16]}</code></p>\n"
    )


if __name__ == "__main__":
    PAGE.write_text(conformance_page(), encoding="utf-8")
