"""Event files and tables as those who ask of them see them: which there are, and what a footer or a log says."""
