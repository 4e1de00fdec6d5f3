"""Where the gateway delivers to: services of an RSocket broker, or RabbitMQ brokers."""
