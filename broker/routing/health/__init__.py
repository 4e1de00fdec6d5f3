"""How routes and services are doing: loads, outliers, breakers, leases, and the masks that keep requests away."""
