"""A restartable pipeline on Spark: raw flights, daily changes by every kind of delete, compaction, checks."""

from data.pipeline.report import CheckReport, PipelineReport, StepReport
from data.pipeline.run import DEFAULT_TABLE, run_pipeline, session_opener

__all__ = ["DEFAULT_TABLE", "CheckReport", "PipelineReport", "StepReport", "run_pipeline", "session_opener"]
