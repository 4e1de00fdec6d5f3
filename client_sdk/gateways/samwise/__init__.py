"""The Samwise gateway: messages handed over by ZeroMQ are stored, and delivered to services or RabbitMQ brokers."""
