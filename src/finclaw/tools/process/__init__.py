"""Processes that run what may not be trusted to end: each under a supervisor that kills the whole process tree."""
