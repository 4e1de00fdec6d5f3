"""Which of the candidates gets a unicast request: one file for each load balancer, and the registry of their names."""
