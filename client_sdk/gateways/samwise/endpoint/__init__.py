"""The ZeroMQ side: the socket of the gateway, who is let in, how requests come and answers go; and a client."""
