"""Markets and money, written only against the kernel and the tools: proof that the extension API suffices."""
