"""`rsocket-broker demo`: a broker with services, callers, event files, tables and a report, in a minute."""
