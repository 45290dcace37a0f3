"""A change is a value; the catalog sees it once."""
