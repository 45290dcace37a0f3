"""SQL's WHERE: text in, a bound filter out; what a filter says of rows, files and row groups."""
