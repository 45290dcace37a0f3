"""Where tasks run, nothing about what they mean: an engine is `map(fn, tasks)`."""
