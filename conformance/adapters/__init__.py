"""Programs that read a table of the suite with one engine, one for each engine that the runner knows."""
