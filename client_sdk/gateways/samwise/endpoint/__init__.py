"""The ZeroMQ side of the gateway: the socket, who is let in, and how requests come and answers go."""
