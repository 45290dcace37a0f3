"""Views: what a table looks like, as pages that are text, HTML and data at once."""
