"""Several brokers of one machine that are one to the outside: a supervisor, and a process for each worker."""
