"""Running a capture again: the plan for the native replayer, and what it answers."""
