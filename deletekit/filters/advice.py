"""What to write instead of words and signs that other dialects of SQL have, and the filter language has not."""

_QUERY = "only what stands behind WHERE, such as id = 3"
_SUBQUERY = (
    "no subquery: keys = duckdb.sql('SELECT ...').to_arrow_table(), then dk.delete_keys(table, keys) or dk.merge(...)"
)
_NOW = "the time itself, such as TIMESTAMP '2020-01-31T12:30:00Z': your program computes it"
_TIMES = "a time that your program has computed: there is no arithmetic with times"
_AGGREGATE = "no aggregates: compute the value first, and write it"
_REGEX = "LIKE, starts_with, ends_with or contains: there are no regular expressions"
_CAST = "CAST(... AS {})"
_WORDS: dict[str, str] = {
    **dict.fromkeys(("delete", "update", "insert", "where", "from"), _QUERY),
    **dict.fromkeys(("select", "exists", "with"), _SUBQUERY),
    **dict.fromkeys(("now", "current_timestamp", "current_date", "current_time", "localtimestamp", "localtime"), _NOW),
    **dict.fromkeys(("getdate", "sysdate", "curdate", "today", "current_timezone", "unix_timestamp"), _NOW),
    **dict.fromkeys(("interval", "date_add", "date_sub", "dateadd", "datediff", "date_diff", "add_months"), _TIMES),
    **dict.fromkeys(("timestampadd", "timestampdiff", "months_between", "age"), _TIMES),
    **dict.fromkeys(("count", "sum", "avg", "mean", "min", "max", "any", "all", "some", "first", "last"), _AGGREGATE),
    **dict.fromkeys(("row_number", "rank", "lag", "lead", "over", "group", "having", "order", "limit"), _AGGREGATE),
    **dict.fromkeys(("rlike", "regexp", "regexp_like", "regexp_replace", "regexp_extract", "similar"), _REGEX),
    "concat_ws": "a || ', ' || b",
    **dict.fromkeys(("if", "iff", "iif", "decode", "nvl2"), "CASE WHEN ... THEN ... ELSE ... END"),
    **dict.fromkeys(("timestamp", "to_timestamp"), _CAST.format("timestamp")),
    **dict.fromkeys(("int", "integer", "bigint", "double", "float", "string", "boolean"), _CAST.format("type")),
    **dict.fromkeys(("try_cast", "convert", "to_char", "to_number", "char", "varchar"), _CAST.format("type")),
    **dict.fromkeys(("left", "right", "mid", "substring_index"), "substring(x, first, length)"),
    **dict.fromkeys(("instr", "locate", "position", "strpos", "charindex", "array_contains"), "contains(x, 'text')"),
    **dict.fromkeys(("trunc", "truncate"), "floor(x), or date_trunc('unit', x)"),
    **dict.fromkeys(
        ("dayofmonth", "date_part", "datepart", "extract", "date_format"), "year, quarter, month, day or hour"
    ),
    "isnull": "... IS NULL",
    "isnotnull": "... IS NOT NULL",
    "isnan": "... IS NAN",
    "nvl": "coalesce(a, b)",
    "len": "length(x)",
    "lcase": "lower(x)",
    "ucase": "upper(x)",
    "startswith": "starts_with(x, 'text')",
    "endswith": "ends_with(x, 'text')",
    "log": "ln(x) or log10(x)",
    "div": "floor(a / b)",
    "unknown": "... IS NULL",
}
_SIGNS = {
    "--": "no comment",
    "/*": "no comment",
    "&&": "AND",
    ";": "one filter, without ;",
    "[": "IN ( value, ... )",
    "~": _REGEX,
    "?": "the value itself: there are no parameters",
    ":": "the value itself: there are no parameters",
    "@": "the value itself: there are no parameters",
    "$": "the value itself: there are no parameters",
    "{": "the value itself: there are no parameters",
}


def advice_on(text: str, at: int) -> str | None:
    """Return what to write instead of the word or sign at a place of a text, None if nothing is known of it."""
    word = next((n for n in range(at, len(text) + 1) if not (text[n : n + 1].isalnum() or text[n : n + 1] == "_")), at)
    if word > at:
        return _WORDS.get(text[at:word].lower())
    for sign, advice in _SIGNS.items():
        if sign in text[max(0, at - len(sign) + 1) : at + len(sign)]:
            return advice
    return None
