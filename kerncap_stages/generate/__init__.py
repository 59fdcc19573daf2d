"""Making projects of captures and sources."""
