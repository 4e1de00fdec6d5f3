"""The feed: files announced by Sarracenia v03 posts, and mirrored.

A layer of its own on top of the client SDK (docs/architecture.md). Optional: no settings, no import.
"""
