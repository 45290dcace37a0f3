"""The exercises: one module for each lesson, and `all`, which holds them together."""
