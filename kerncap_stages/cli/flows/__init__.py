"""What each executable does, once its words are read: one module for each, imported by its command alone."""
