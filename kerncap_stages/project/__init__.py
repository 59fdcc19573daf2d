"""Generated projects in their folders: checking them out, opening them again, what was edited and built."""
