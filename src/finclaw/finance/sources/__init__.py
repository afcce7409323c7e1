"""Sources of market data: one module for each vendor, on plain HTTP."""
