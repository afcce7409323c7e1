"""The budget: what may be spent on model calls, what each has cost, and how it is entered into the books."""
