"""Pure tasks: values and Arrow batches in, values and files out. No commit, no engine."""
