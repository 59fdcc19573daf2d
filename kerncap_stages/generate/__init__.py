"""Makes projects from captures and their sources."""
