"""The embedded starter model: a 6 MB GGUF, its notice and the generator that rebuilds it."""
