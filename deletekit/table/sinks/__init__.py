"""What sinks leave in a table: markers of batches, files beside the table, promotions of branches."""
