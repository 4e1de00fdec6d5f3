"""Which route owns a key: hashes, shard methods and the tables that they are built of."""
