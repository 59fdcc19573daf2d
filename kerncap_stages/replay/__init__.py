"""Replays captures: writes the plan for the native replayer, runs it, and reads its report."""
