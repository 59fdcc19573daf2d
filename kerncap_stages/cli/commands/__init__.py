"""One module for each executable: its options and help. Stages never import each other."""
