"""Who announces files: looks at a folder, keeps a log of posts, and hands them over."""
