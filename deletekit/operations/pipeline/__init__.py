"""A restartable pipeline on Spark: raw flights, daily changes by every kind of delete, compaction, checks."""

from deletekit.operations.pipeline.report import CheckReport, PipelineReport, StepReport
from deletekit.operations.pipeline.run import DEFAULT_TABLE, run_pipeline
from deletekit.operations.pipeline.session import opening

__all__ = ["DEFAULT_TABLE", "CheckReport", "PipelineReport", "StepReport", "opening", "run_pipeline"]
