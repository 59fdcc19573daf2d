"""Generated projects: their layout, their files, checking them out and opening them again."""
