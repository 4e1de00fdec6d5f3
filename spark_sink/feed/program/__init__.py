"""The feed as a program: a process that a broker keeps running, or a command."""
