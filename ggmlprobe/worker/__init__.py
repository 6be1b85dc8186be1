"""The child process that can die, and the parent's end of it."""
