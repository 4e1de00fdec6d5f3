"""The writer's parts: the log that frames go to first, what is made of it, and what is kept of that for how long."""
