"""Documents about companies: headlines, filings, earnings dates and profiles, as tools."""
