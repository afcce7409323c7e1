"""What FinClaw costs beside other agents, on the same work, in the same run. `make bench` runs it."""
