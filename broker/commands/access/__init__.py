"""`rsocket-broker access`: asks the roles of a configuration, and makes roles of what was recorded."""
