"""Verbs: plan -> engine.map -> RowDelta -> commit."""
