"""One module per stage. Stages never import each other: they meet only in the store."""
