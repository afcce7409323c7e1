"""Tools of other people's MCP servers, each as it was when the operator first let it in, and never otherwise."""
