"""The configuration of a broker: which options there are, where they are read, and what they may say."""
