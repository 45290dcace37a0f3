"""Verbs over a table: each plans its work, runs it on an engine, and commits once. No verb imports another."""
