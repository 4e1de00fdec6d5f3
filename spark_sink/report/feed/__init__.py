"""What the report says of files of the feed: facts and sections."""
