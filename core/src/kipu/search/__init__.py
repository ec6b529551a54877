"""Turn a query into results."""
